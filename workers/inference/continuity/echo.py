"""Is an answer in an agent's history the one that we sampled?

Owns that comparison: the agent got the answer parsed (reasoning apart, tool calls apart) and may echo it with its
reasoning left out, moved into the text or kept, arguments in another key order, null for "". Not owned: parsing (the
engine's own parsers do it, through `Template`). Place in the path: step 1, when a prompt is looked up.
"""

from __future__ import annotations

from workers.inference.continuity.messages import Call, Message, call_ids_of, calls_of, text_of
from workers.inference.continuity.template import Template
from workers.inference.continuity.turns import Answer


def echoes(answer: Answer, message: Message, template: Template) -> bool:
    """True where `message` says what `answer` says to an agent. White space around the text does not count."""
    calls = calls_of(message)
    if calls and answer.call_ids and not set(call_ids_of(message)) <= set(answer.call_ids):
        return False
    echoed = template.reasoning.forms(text_of(message))
    return any(found == calls and echoed & template.reasoning.forms(rest) for rest, found in _readings(answer, calls, template))


def _readings(answer: Answer, calls: list[Call], template: Template) -> list[tuple[str, list[Call]]]:
    """Text and calls of the answer; parsed only for an echo that has calls. Reasoning may hide calls from a parser."""
    if not calls:
        return [(answer.text, [])]
    texts = dict.fromkeys((answer.text, template.reasoning.after(answer.text)))
    return [template.parse(text, answer.tool_choice) for text in texts]
