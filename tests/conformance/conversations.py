"""What a model of the tests knows by heart: reasoning before an answer, reasoning before a call, two calls and what follows them.

For real SGLang they are in the weights (`knowing_engine`); the fake is told to say the same.
"""

from typing import Any

Message = dict[str, Any]

QUESTION = "Which mill is the old one?"
THOUGHT = "There are two mills: naïve 水車, and the lower one."
ANSWER = "The lower mill. 🌊"

ORDER = "Think first. Then send it on."
THOUGHT_OF_CALL = "To the weir with it."
TWICE = "Send it on to both."
RESULT = "It went down the river, past the first bridge and the second one, and was there before the evening came."
DONE = "Both are done."


def called(*places: str) -> list[Message]:
    return [{"type": "function", "function": {"name": "route", "arguments": {"to": place}}} for place in places]


REPLIES = {
    QUESTION: f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    ORDER: f'<think>\n{THOUGHT_OF_CALL}\n</think><tool_call>{{"name":"route","arguments":{{"to":"weir"}}}}</tool_call>',
    TWICE: "".join(f'<tool_call>{{"name":"route","arguments":{{"to":"{to}"}}}}</tool_call>' for to in ("mill", "weir")),
    RESULT: f"<think>\nYes.\n</think>\n\n{DONE}",
}
"""What the fake says to the last message."""

CONVERSATIONS: list[list[Message]] = [
    [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"},
    ],
    [
        {"role": "user", "content": ORDER},
        {"role": "assistant", "content": f"<think>\n{THOUGHT_OF_CALL}\n</think>\n", "tool_calls": called("weir")},
    ],
    [
        {"role": "user", "content": TWICE},
        {"role": "assistant", "content": "", "tool_calls": called("mill", "weir")},
        {"role": "tool", "content": RESULT},
        {"role": "tool", "content": RESULT},
        {"role": "assistant", "content": f"<think>\nYes.\n</think>\n\n{DONE}"},
    ],
]
