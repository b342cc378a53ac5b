"""What one gateway process holds: made once by ``app.create_app``, shared by its routes."""

import asyncio
from dataclasses import dataclass, field

from gateway.admission import Admission
from gateway.exchange import ExchangeJournal
from gateway.keys import KeyTable
from gateway.metrics import Metrics
from gateway.sessions import SessionNamer
from gateway.settings import Settings
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.workers import Health, Worker


@dataclass(slots=True)
class Gateway:
    """``mac_secret`` mints completion ids; ``origins`` is where each worker's URL leads; ``dataproxy`` is its socket.

    ``moved`` is where stored answers are that bear another worker's mark (see ``placement``); ``running`` are the tasks of the
    calls in flight.
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
    metrics: Metrics = field(default_factory=Metrics)
    moved: dict[str, str] = field(default_factory=dict)
    running: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def ready(self) -> bool:
        """Whether calls can be served: a key table has come, and a worker answers and names its models."""
        return self.keys.loaded and any(worker.models and worker.health is not Health.DOWN for worker in self.workers)
