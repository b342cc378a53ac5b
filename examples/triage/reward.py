"""What an answer to a ticket is worth: a pure function, used by the customer desk and by the demo's table.

Success is one thing only: the answer is one JSON object with the ticket's order number and nothing beside it. Below success
there is a small partial credit for form alone, so that a model which never writes such an object is shown the way.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from examples.triage.tickets import Ticket

KEY: Final = "order"

_OBJECT_THEN_MORE: Final = re.compile(rf'\{{"{KEY}": ?"?\d+"?\}}')


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reward` is 1 for success, else the partial credit, 0 to 0.2."""

    success: bool
    reward: float


def order_in(answer: str) -> int | None:
    """The whole number under "order" if `answer` is exactly one JSON object with that key only, else None."""
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or list(parsed) != [KEY] or type(parsed[KEY]) is not int:
        return None
    return int(parsed[KEY])


def judge(answer: str, ticket: Ticket) -> Verdict:
    """Compare an answer with the order that the ticket is about."""
    answer = answer.strip()
    if order_in(answer) == ticket.order:
        return Verdict(success=True, reward=1.0)
    return Verdict(success=False, reward=_credit_for_form(answer))


def _credit_for_form(answer: str) -> float:
    if order_in(answer) is not None:
        return 0.2
    if _OBJECT_THEN_MORE.match(answer):
        return 0.15
    if answer.startswith(f'{{"{KEY}"'):
        return 0.1
    if answer.startswith("{"):
        return 0.05
    return 0.0
