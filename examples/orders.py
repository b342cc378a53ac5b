"""The order desk of a small shop: what the example agents are for, and the tools they have. No model and no SDK in here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

SYSTEM: Final = "You speak for the order desk of a shop. Look orders up; refund what was lost."
QUESTIONS: Final = ("Where is order 4821?", "And orders 1177 and 2090?", "Refund the lost one, please.")
SUMMARY: Final = "Sum up for our files."

_STATUS: Final = {4821: ("in transit", "Thursday"), 1177: ("delivered", None), 2090: ("lost", None)}


class Tool(NamedTuple):
    """What a model is told of a tool, and what the tool does."""

    description: str
    parameters: dict[str, Any]
    function: Callable[..., dict[str, Any]]


def order_status(order: int) -> dict[str, Any]:
    """Where an order is."""
    status, arrives = _STATUS.get(order, ("unknown", None))
    return {"order": order, "status": status, "arrives": arrives}


def refund(order: int, reason: str) -> dict[str, Any]:
    """Pay an order back, if it was lost."""
    return {"order": order, "refunded": _STATUS.get(order, ("",))[0] == "lost"}


TOOLS: Final[Mapping[str, Tool]] = {
    "order_status": Tool(
        "Where an order is.",
        {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"], "additionalProperties": False},
        order_status,
    ),
    "refund": Tool(
        "Pay an order back.",
        {
            "type": "object",
            "properties": {"order": {"type": "integer"}, "reason": {"type": "string"}},
            "required": ["order", "reason"],
            "additionalProperties": False,
        },
        refund,
    ),
}


def use(name: str, arguments: str | dict[str, Any]) -> str:
    """Call a tool as a model asked for it, with arguments in JSON or decoded; what it answers, or what was wrong, as JSON."""
    try:
        result = TOOLS[name].function(**(json.loads(arguments) if isinstance(arguments, str) else arguments))
    except (ValueError, TypeError, KeyError) as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps(result)
