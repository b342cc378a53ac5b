"""Makes the register hold in this process: workers come and go, drain, change lanes. Called once a poll, and after each change."""

import logging
import mmap
import os
from pathlib import Path

import msgspec

from gateway.fleet.register import Entry, Register, Registered, id_of
from gateway.state import Gateway
from gateway.upstream.origin import Origin
from router.recent import NUM_BYTES, RecentKeys
from router.workers import Health, Worker

log = logging.getLogger(__name__)


class Follower:
    """Keeps ``gateway.workers`` in step with the settings and the register."""

    def __init__(self, gateway: Gateway, register: Register) -> None:
        self._gateway = gateway
        self._register = register
        self._directory = gateway.settings.data_dir.expanduser() / "gateway"
        self._stamp: tuple[int, int, int] | None = None
        self._expires_at: float | None = None
        self.registered = Registered()
        """What holds here."""
        for worker in gateway.workers:
            worker.recent = self._recent(worker.url)

    def __call__(self, now: float) -> None:
        """Look, and change what must change; ``now`` is UTC seconds."""
        stamp = self._register.stamp()
        if stamp == self._stamp and (self._expires_at is None or now < self._expires_at):
            return
        try:
            registered = self._register.read()
        except msgspec.DecodeError as error:
            log.error("the register of workers cannot be read, what is known stays: %s", error)
            self._stamp = stamp
            return
        self._stamp = stamp
        self._expires_at = min((e.expires_at for e in registered.workers if e.expires_at is not None), default=None)
        self._apply(registered)

    def _apply(self, registered: Registered) -> None:
        self.registered = registered
        gateway, settings = self._gateway, self._gateway.settings
        entries = {entry.url: entry for entry in registered.workers if entry.url not in settings.engine_urls}
        known = {worker.url: worker for worker in gateway.workers}
        for url, entry in entries.items():
            gateway.origins[url] = Origin.parse(url, entry.address)
            if url not in known:
                known[url] = Worker(url, kind=entry.kind, recent=self._recent(url))
                log.info("worker is registered worker=%s lane=%s", url, entry.lane)
        for url in [url for url in known if url not in entries and url not in settings.engine_urls]:
            del known[url]  # its origin stays for the calls that are still on it
            gateway.metrics.clear("", url)
            log.info("worker is removed worker=%s", url)
        for worker in known.values():
            self._place(worker, registered, entries)
        gateway.workers[:] = known.values()
        share = registered.canary_per_mille
        gateway.routing.canary_per_mille = settings.canary_per_mille if share is None else share

    def _place(self, worker: Worker, registered: Registered, entries: dict[str, Entry]) -> None:
        """Lane, drain and rotation. One that was taken out gets no calls from here on; back in, it is asked first."""
        name, entry, before = id_of(worker.url), entries.get(worker.url), worker.out
        worker.draining = name in registered.draining
        worker.lane = registered.lanes.get(name, entry.lane if entry else "stable")
        worker.allowed = frozenset(registered.versions.get(worker.lane, ()))
        is_kept = bool(registered.versions) and worker.kind == "sglang"
        worker.proven = registered.proven.get(name, "") if is_kept else None
        worker.out = registered.out[name].reason if name in registered.out else ""
        if worker.out:
            worker.health = Health.DOWN
        if worker.out != before:
            log.warning("worker is %s rotation worker=%s %s", "out of" if worker.out else "back in", worker.url, worker.out)

    def _recent(self, url: str) -> RecentKeys:
        """The filter of recent keys that all gateway processes of this machine share."""
        return RecentKeys(_mapped(self._directory / f"recent-{id_of(url)}"))


def _mapped(path: Path) -> memoryview:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(file, NUM_BYTES)
        return memoryview(mmap.mmap(file, NUM_BYTES))
    finally:
        os.close(file)


def entry_of(url: str, origin: Origin, **fields: object) -> Entry:
    """The entry of a worker whose address was checked."""
    return msgspec.convert({"url": url, "host": origin.host, "address": origin.address, "port": origin.port, **fields}, Entry)
