"""The filters of the list of trajectories: from the address of a page to a query, and back for links."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.errors import Refused

NAMES = (
    "text", "agent", "session", "since", "until", "model", "version", "release", "lane", "kind", "eligible", "reason", "tool",
    "outcome", "error", "rewarded", "min_reward", "max_reward",
)  # fmt: skip
_MOST = 200
_YES_NO = {"yes": True, "no": False}


def asked(params: Mapping[str, str]) -> dict[str, str]:
    """Those fields that say something."""
    return {name: params[name].strip()[:_MOST] for name in NAMES if params.get(name, "").strip()}


def query_of(fields: Mapping[str, str]) -> TrajectoryQuery:
    """The query that ``fields`` (see ``asked``) mean.

    Raises:
        Refused: a time or a number cannot be read.
    """
    outcome = fields.get("outcome")
    if outcome not in (None, "error", "ok"):
        raise Refused("`outcome` is error or ok")
    return TrajectoryQuery(
        text=fields.get("text", ""),
        agent=fields.get("agent"),
        session=fields.get("session"),
        since_us=moment(fields, "since"),
        until_us=moment(fields, "until"),
        model=fields.get("model"),
        version=fields.get("version"),
        kind=fields.get("kind"),
        reason=fields.get("reason"),
        outcome=outcome,
        rewarded=_YES_NO.get(fields.get("rewarded", "")),
        min_reward=_number(fields, "min_reward"),
        max_reward=_number(fields, "max_reward"),
        eligible=_YES_NO.get(fields.get("eligible", "")),
        tool=fields.get("tool"),
        release=fields.get("release"),
        lane=fields.get("lane"),
        error=_error(fields.get("error")),
    )


def fields_of(query: TrajectoryQuery) -> dict[str, str]:
    """The fields that mean ``query``, for links."""
    given = {name: getattr(query, name, None) for name in NAMES if name not in ("since", "until", "rewarded", "eligible")}
    given |= {name: _word(getattr(query, name)) for name in ("rewarded", "eligible")}
    given |= {"since": _written(query.since_us), "until": _written(query.until_us)}
    return {name: str(value) for name, value in given.items() if value not in (None, "")}


def _error(given: str | None) -> str | None:
    if given is not None and given.isdigit() and not 100 <= int(given[:9]) <= 599:
        raise Refused("`error` is an HTTP status such as 429, a delivery such as disconnected, or tool")
    return given


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
