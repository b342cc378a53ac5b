"""The filters of the list of trajectories: from the address of a page to a query, and back for links."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from dataproxy.admit import REASONS
from dataproxy.capture import Delivery
from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.console.choices import NotAChoice, chosen
from dataproxy.console.plain import one_line
from dataproxy.errors import Refused

_MOST = 200
_LANES = ("stable", "canary", "mixed")
_ERRORS = ("tool", "incomplete", *get_args(Delivery))
_YES_NO = {"yes": True, "no": False}


@dataclass(slots=True, frozen=True)
class Filters:
    """The filters as an address gives them; "" where it does not. Which of them are closed lists: see ``query_of``."""

    text: str = ""
    agent: str = ""
    session: str = ""
    since: str = ""
    until: str = ""
    model: str = ""
    version: str = ""
    release: str = ""
    lane: str = ""
    kind: str = ""
    eligible: str = ""
    reason: str = ""
    tool: str = ""
    outcome: str = ""
    error: str = ""
    rewarded: str = ""
    min_reward: str = ""
    max_reward: str = ""


NAMES = tuple(field.name for field in dataclasses.fields(Filters))


def asked(params: Mapping[str, str]) -> dict[str, str]:
    """Those fields that say something."""
    return {name: params[name].strip()[:_MOST] for name in NAMES if params.get(name, "").strip()}


def query_of(fields: Mapping[str, str], kinds: Collection[str]) -> TrajectoryQuery:
    """The query that ``fields`` (see ``asked``) mean; ``kinds`` of redacted values are those that there are.

    Raises:
        Refused: a time or a number cannot be read.
        NotAChoice: a closed list has no such value.
    """

    def choice(name: str, choices: Collection[str]) -> str | None:
        return chosen(name, fields.get(name, ""), choices)

    return TrajectoryQuery(
        text=fields.get("text", ""),
        agent=fields.get("agent"),
        session=fields.get("session"),
        since_us=moment(fields, "since"),
        until_us=moment(fields, "until"),
        model=fields.get("model"),
        version=fields.get("version"),
        kind=choice("kind", kinds),
        reason=choice("reason", REASONS),
        outcome=choice("outcome", ("error", "ok")),
        rewarded=_YES_NO.get(choice("rewarded", _YES_NO) or ""),
        min_reward=_number(fields, "min_reward"),
        max_reward=_number(fields, "max_reward"),
        eligible=_YES_NO.get(choice("eligible", _YES_NO) or ""),
        tool=fields.get("tool"),
        release=fields.get("release"),
        lane=choice("lane", _LANES),
        error=_error(fields.get("error")),
    )


def fields_of(query: TrajectoryQuery) -> dict[str, str]:
    """The fields that mean ``query``, for links."""
    given = {name: getattr(query, name, None) for name in NAMES if name not in ("since", "until", "rewarded", "eligible")}
    given |= {name: _word(getattr(query, name)) for name in ("rewarded", "eligible")}
    given |= {"since": _written(query.since_us), "until": _written(query.until_us)}
    return {name: str(value) for name, value in given.items() if value not in (None, "")}


def _error(given: str | None) -> str | None:
    if given is None or given in _ERRORS or (given.isdecimal() and 100 <= int(given) <= 599):
        return given
    why = f"`error` takes an HTTP status, 100 to 599, or one of the values below; “{one_line(given, 60)}” is neither."
    raise NotAChoice(why, _ERRORS)


def _word(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _written(time_us: int | None) -> str:
    return "" if time_us is None else datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()


def moment(fields: Mapping[str, str], name: str) -> int | None:
    """UTC µs of a date, or of a date and time, without a zone UTC; None where the field says nothing.

    Raises:
        Refused: it cannot be read.
    """
    if not fields.get(name):
        return None
    try:
        given = datetime.fromisoformat(fields[name])
        return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1e6)
    except (ValueError, OverflowError) as error:
        raise Refused(f"`{name}` is a date such as 2026-11-30 or 2026-11-30T14:00") from error


def _number(fields: Mapping[str, str], name: str) -> float | None:
    if name not in fields:
        return None
    try:
        value = float(fields[name])
    except ValueError as error:
        raise Refused(f"`{name}` is a number") from error
    if not math.isfinite(value):
        raise Refused(f"`{name}` is a finite number")
    return value
