"""What an answer to a ticket is worth: a pure function, used by the customer desk and by the demo's table.

Success is one thing only: the answer is one JSON object with the right queue and nothing beside it. Below success there
is a small partial credit for form alone, so that a model which never writes such an object is shown the way. It does
not depend on which queue is named: credit for any known queue teaches a model to name one and the same queue always.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from examples.triage.tickets import Ticket

KEY: Final = "type"

_OBJECT_THEN_MORE: Final = re.compile(rf'\{{"{KEY}": ?"[^"]*"\}}')


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reward` is 1 for success, else the partial credit, 0 to 0.1."""

    success: bool
    reward: float


def type_of(answer: str) -> str | None:
    """The string under "type" if `answer` is exactly one JSON object with that key only, else None."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return None
    if not isinstance(parsed, dict) or list(parsed) != [KEY] or not isinstance(parsed[KEY], str):
        return None
    return parsed[KEY]


def judge(answer: str, ticket: Ticket) -> Verdict:
    """Compare an answer with the queue the ticket belongs to."""
    answer = answer.strip()
    if type_of(answer) == ticket.queue:
        return Verdict(success=True, reward=1.0)
    return Verdict(success=False, reward=_credit_for_form(answer))


def _credit_for_form(answer: str) -> float:
    if type_of(answer) is not None:
        return 0.1
    if _OBJECT_THEN_MORE.match(answer):
        return 0.06
    if answer.startswith(f'{{"{KEY}"'):
        return 0.04
    if answer.startswith("{"):
        return 0.02
    return 0.0
