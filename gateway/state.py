"""What one gateway process holds: made once by ``app.create_app``, shared by its routes."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from gateway.admission import Admission
from gateway.exchange import ExchangeJournal
from gateway.gaps import Gaps
from gateway.keys import KeyTable
from gateway.metrics import Metrics
from gateway.sessions import SessionNamer
from gateway.settings import Settings
from gateway.spans import Spans
from gateway.upstream.limits import Limits
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.choose import Routing
from router.workers import Health, Worker


class Swept(Protocol):
    """Something with a deadline."""

    def sweep(self, now: float) -> None:
        """Deal with what is overdue at ``now`` of the loop's clock."""


class Running(Protocol):
    """A call in flight."""

    def stop(self) -> asyncio.Future[None]:
        """End it; done once that is recorded."""


@dataclass(slots=True)
class Gateway:
    """``mac_secret`` mints completion ids; ``origins`` is where each worker's URL leads; ``dataproxy`` is its socket.

    ``moved`` is where stored answers are that bear another worker's mark (see ``placement``). ``agents`` are the open connections
    of agents, ``waiting`` the tasks of calls that wait to be let in, ``running`` the calls that engines work on, ``tasks`` what is
    left to do for them.
    """

    settings: Settings
    mac_secret: bytes
    gateway_key: str
    journal: ExchangeJournal
    keys: KeyTable
    namer: SessionNamer
    pool: Pool
    workers: list[Worker]
    origins: dict[str, Origin]
    dataproxy: Origin
    admission: Admission
    limits: Limits
    routing: Routing = field(default_factory=Routing)
    spans: Spans | None = None
    process: str = ""
    """This process's number where several serve one port."""
    metrics: Metrics = field(default_factory=Metrics)
    gaps: Gaps = field(default_factory=Gaps)
    moved: dict[str, str] = field(default_factory=dict)
    agents: set[Swept] = field(default_factory=set)
    waiting: set[asyncio.Task[None]] = field(default_factory=set)
    running: set[Running] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    pseudonymizing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
    """How many requests the data proxy replaces values in at once; more wait here, not in its threads."""

    def spawn(self, step: Coroutine[None, None, None]) -> None:
        """Run ``step`` in a task that the gateway waits for when it stops."""
        task = asyncio.get_running_loop().create_task(step)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @property
    def ready(self) -> bool:
        """Whether calls can be served: a key table has come, the journal can be written, a worker answers and names its models."""
        served = any(worker.models and worker.health is not Health.DOWN for worker in self.workers)
        return self.keys.loaded and self.journal.failure is None and served
