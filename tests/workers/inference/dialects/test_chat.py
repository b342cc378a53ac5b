"""Which roles a chat template is given: none that it would drop."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from workers.inference.dialects.chat import for_template

CHATML = "{{ '<|im_start|>' + message['role'] }}"
KNOWS_DEVELOPER = "{% if message.role in ['system', 'developer'] %}"


@dataclass(frozen=True)
class Part:
    text: str


@dataclass(frozen=True)
class Message:
    """As much of SGLang's message as the repair touches."""

    role: str
    content: Any
    tools: Any = None

    def model_copy(self, update: dict[str, Any]) -> "Message":
        return replace(self, **update)


TURNS = [Message("system", "one"), Message("developer", "two"), Message("user", "three")]


def told(messages: list[Any]) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in messages]


def test_developer_is_system_where_the_template_has_no_word_for_it() -> None:
    assert told(for_template(TURNS, CHATML, True)) == [("system", "one"), ("system", "two"), ("user", "three")]
    assert for_template(TURNS, KNOWS_DEVELOPER, True) == TURNS


def test_where_only_a_leading_system_message_is_rendered_all_are_one_in_order() -> None:
    later = [*TURNS, Message("system", [Part("four"), Part("five")]), Message("user", "six")]
    joined = [("system", "one\n\ntwo\n\nfour\nfive"), ("user", "three"), ("user", "six")]
    assert told(for_template(later, CHATML, False)) == joined


@pytest.mark.parametrize("inline", [True, False])
def test_a_conversation_that_needs_nothing_keeps_its_messages(inline: bool) -> None:
    plain = [Message("system", "one"), Message("user", "two"), Message("assistant", None)]
    assert all(new is old for new, old in zip(for_template(plain, CHATML, inline), plain, strict=True))


def test_a_message_that_declares_tools_is_not_joined_away() -> None:
    with_tools = [Message("system", "one", tools=["t"]), Message("system", "two"), Message("user", "three")]
    assert for_template(with_tools, CHATML, False) == with_tools
