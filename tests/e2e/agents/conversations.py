"""What the agents' model knows by heart, and what the tests expect: the examples' conversations, in the form of chat messages.

Tool results are written as the examples' own tools and Hermes' write them: a changed byte there leaves the model without an
answer.
"""

import json
from typing import Any

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def calls(*named: tuple[str, dict[str, Any]]) -> Message:
    """An answer that is tool calls and nothing else."""
    functions = [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in named]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def tool(result: dict[str, Any]) -> Message:
    return {"role": "tool", "content": json.dumps(result)}


ORDERS: list[Message] = [
    user("Where is order 4821?"),
    calls(("order_status", {"order": 4821})),
    tool({"order": 4821, "status": "in transit", "arrives": "Thursday"}),
    assistant("Order 4821 is in transit and arrives on Thursday."),
    user("And orders 1177 and 2090?"),
    calls(("order_status", {"order": 1177}), ("order_status", {"order": 2090})),
    tool({"order": 1177, "status": "delivered", "arrives": None}),
    tool({"order": 2090, "status": "lost", "arrives": None}),
    assistant("Order 1177 was delivered. Order 2090 is lost."),
    user("Refund the lost one, please."),
    calls(("refund", {"order": 2090, "reason": "lost"})),
    tool({"order": 2090, "refunded": True}),
    assistant("Order 2090 is refunded."),
    user("Sum up for our files."),
    assistant('{"orders": [4821, 1177, 2090], "refunded": [2090]}'),
]
"""examples/openai_sdk and examples/anthropic_sdk."""

INBOX: list[Message] = [
    user("How many tickets are in the folder inbox?"),
    calls(("terminal", {"command": "ls inbox | wc -l"})),
    tool({"output": "3", "exit_code": 0, "error": None}),
    assistant("There are 3 tickets."),
    user("Note it in the file count.txt."),
    calls(("terminal", {"command": "echo 3 tickets > count.txt && cat count.txt"})),
    tool({"output": "3 tickets", "exit_code": 0, "error": None}),
    assistant("It is noted."),
    user("Thank you. Anything left?"),
    assistant("No, that was all."),
]
"""examples/hermes."""

INBOX_OF_FIVE: list[Message] = [
    INBOX[0], INBOX[1], tool({"output": "5", "exit_code": 0, "error": None}), *INBOX[3:],
]  # fmt: skip
"""The same, in a fuller folder: the model says three whatever `ls` says, so a checker has something to find."""

CONVERSATIONS: list[list[Message]] = [ORDERS, INBOX, INBOX_OF_FIVE]
