"""Live: what happens now: calls, queue, workers, the journal's backlog and drain. It asks again every few seconds."""

from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import ColumnElement, Connection, Table, func, select

from dataproxy.alarms.watch import look
from dataproxy.api.identity import require, scope
from dataproxy.console.gateway_glance import glance
from dataproxy.console.rendering import render
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.console.totals import Totals
from dataproxy.services import Services
from dataproxy.store.consents import INTERNAL
from dataproxy.store.reading import body_of
from dataproxy.store.schema import event, lease, pending_reward, quarantine
from dataproxy.store.versions import list_versions

router = APIRouter()
_CALLS = 300
_MOST_COUNTED = 10_000
_MINUTE_US = 60_000_000


@dataclass(slots=True, frozen=True)
class Traffic:
    """The last calls that were drained: how many a minute, for how long (ms, middle and 95th percentile), by whom."""

    num: int
    last_minute: int
    newest_us: int | None
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    workers: list[tuple[str, int]]
    versions: list[tuple[str, int]]


@dataclass(slots=True, frozen=True)
class Waiting:
    """What serves, and what waits: leases that are open, rewards without their exchange, calls in the quarantine."""

    serving: str | None
    leases: int
    rewards: int
    quarantined: int


@router.get("/live")
def get_live(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """The page, or the piece of it that changes."""
    require(seat.caller, "trainer")
    tenant, now_us = scope(seat.caller), services.now_us()
    totals: Totals = request.app.state.totals
    with services.database.read() as connection:
        waiting = _waiting(connection, tenant)
        alarms = look(connection, tenant, now_us)
        traffic = _traffic(connection, tenant, now_us)
        newest = connection.execute(select(func.max(event.c.position))).scalar() or 0 if tenant is None else 0
    pace: Pace = request.app.state.pace
    rate = pace.per_s(now_us, newest) if tenant is None else None
    processes = _processes(services) if tenant is None else []
    gateway = glance(services.data_dir / "run" / "stack.json") if tenant is None else None
    template = "live_piece.html" if "hx-request" in request.headers else "live.html"
    shown: dict[str, Any] = {
        "waiting": waiting,
        "alarms": alarms,
        "total": totals.of(tenant),
        "backlog": services.drain.backlog_bytes() if tenant is None else 0,
        "traffic": traffic,
        "processes": processes,
        "gateway": gateway,
        "rate": rate,
        "now_us": now_us,
        "operator": tenant is None,
    }
    return render(request, template, seat, **shown)


class Pace:
    """How fast events come into the store, by looks of the last minute or two."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, int]] = deque(maxlen=64)

    def per_s(self, now_us: int, position: int) -> float | None:
        """Events a second since the oldest look that is kept; None at the first look."""
        while self._looks and now_us - self._looks[0][0] > 2 * _MINUTE_US:
            self._looks.popleft()
        first = self._looks[0] if self._looks else None
        self._looks.append((now_us, position))
        return (position - first[1]) / ((now_us - first[0]) / 1e6) if first is not None and now_us > first[0] else None


def _waiting(connection: Connection, tenant: str | None) -> Waiting:
    def num(table: Table, *where: ColumnElement[bool]) -> int:
        query = select(table.c.tenant).where(*where, *(() if tenant is None else (table.c.tenant == tenant,)))
        return int(connection.execute(select(func.count()).select_from(query.limit(_MOST_COUNTED).subquery())).scalar_one())

    serving = next((one.version for one in list_versions(connection) if one.state == "serving"), None)
    return Waiting(serving, num(lease, lease.c.state == "open"), num(pending_reward), num(quarantine))


def _traffic(connection: Connection, tenant: str | None, now_us: int) -> Traffic:
    query = select(event.c.started_us, event.c.ended_us, event.c.status, event.c.body)
    query = (
        query.where(event.c.kind == "model_call", event.c.agent.not_like(f"{INTERNAL}%"))
        .order_by(event.c.position.desc())
        .limit(_CALLS)
    )
    calls = connection.execute(query if tenant is None else query.where(event.c.tenant == tenant)).all()
    took = sorted((row.ended_us - row.started_us) / 1000 for row in calls)
    workers: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    for row in calls:
        m = body_of(row.body).m
        workers[str(m.get("worker") or "unknown")] += 1
        versions.update({str(span[0]) for choice in m.get("versions") or [] for span in choice})
    return Traffic(
        len(calls),
        sum(row.ended_us > now_us - _MINUTE_US for row in calls),
        max((row.ended_us for row in calls), default=None),
        sum(row.status is None or row.status >= 400 for row in calls),
        took[len(took) // 2] if took else None,
        took[int(len(took) * 0.95)] if took else None,
        workers.most_common(20),
        versions.most_common(20),
    )


def _processes(services: Services) -> list[tuple[str, str]]:
    """(name, process id) of what the launcher keeps running."""
    files: list[Path] = sorted((services.data_dir / "run").glob("*.pid"))
    return [(file.stem, file.read_text(errors="replace").strip()[:20]) for file in files if file.stat().st_size < 100]
