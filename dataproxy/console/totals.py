"""How much there is in all, counted aside: no page waits long for a look at the whole store, however much that is."""

import threading
import time
from dataclasses import dataclass, field

from sqlalchemy import Connection, Table, func, select

from dataproxy.services import Services
from dataproxy.store.schema import event, reward, trajectory
from dataproxy.store.scope import EVERYBODY, Scope, scoped

_PATIENCE_S = 0.2
_LEAST_PAUSE_S, _PAUSES = 3.0, 20
"""Counted anew at the earliest after so many times as long as it took."""


@dataclass(slots=True, frozen=True)
class Total:
    """Model calls, trajectories and rewards at ``counted_us`` (UTC µs)."""

    calls: int
    trajectories: int
    rewards: int
    counted_us: int


@dataclass(slots=True)
class _Count:
    """One tenant's: ``again_at`` in seconds of the monotonic clock; a thread counts unless ``is_over``."""

    total: Total | None = None
    again_at: float = 0.0
    is_over: threading.Event = field(default_factory=threading.Event)


class Totals:
    """The last count of each tenant."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._counts: dict[str | None, _Count] = {}
        self._lock = threading.Lock()

    def of(self, tenant: str | None) -> Total | None:
        """Of ``tenant`` (None: of all) as counted last; None while it is counted for the first time."""
        with self._lock:
            count = self._counts.get(tenant)
            if count is None:
                count = self._counts[tenant] = _Count()
                count.is_over.set()
            if count.is_over.is_set() and time.monotonic() >= count.again_at:
                count.is_over.clear()
                threading.Thread(target=self._run, args=(tenant, count), name="console-totals", daemon=True).start()
        if count.total is None:
            count.is_over.wait(_PATIENCE_S)
        return count.total

    def _run(self, tenant: str | None, count: _Count) -> None:
        began = time.monotonic()
        try:
            with scoped(EVERYBODY if tenant is None else Scope(tenant)), self._services.database.read() as connection:
                count.total = _counted(connection, tenant, self._services.now_us())
        finally:
            took_s = time.monotonic() - began
            count.again_at = time.monotonic() + max(_LEAST_PAUSE_S, _PAUSES * took_s)
            count.is_over.set()


def _counted(connection: Connection, tenant: str | None, now_us: int) -> Total:
    def num(table: Table) -> int:
        query = select(func.count()).select_from(table)
        query = query if table is not event else query.where(event.c.kind == "model_call")
        return int(connection.execute(query if tenant is None else query.where(table.c.tenant == tenant)).scalar_one())

    return Total(num(event), num(trajectory), num(reward), now_us)
