"""Keeps a lease alive while a step runs, so that its time-out can be short and a dead trainer's samples return soon."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from dataproxy.client import BadRequest, DataProxyClientError, NotFound
from workers.trainer.data_proxy import SampleSource
from workers.trainer.errors import LeaseLost


class LeaseKeeper:
    """Context manager around a step: renews `lease_id` three times in each `ttl_s`, on a thread of its own."""

    def __init__(self, source: SampleSource, lease_id: str, ttl_s: float) -> None:
        self._source = source
        self._lease_id = lease_id
        self._ttl_s = ttl_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_ended, name=f"keep {lease_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def confirm(self) -> None:
        """Renew once more, now.

        Raises: LeaseLost: the trajectories may be with somebody else; nothing computed from them may be published.
        """
        try:
            self._source.renew_lease(self._lease_id, self._ttl_s)
        except (BadRequest, NotFound) as error:
            raise LeaseLost(f"{self._lease_id} ended before its step did: {error}") from error

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(self._ttl_s / 3):
            try:
                self._source.renew_lease(self._lease_id, self._ttl_s)
            except DataProxyClientError:
                continue  # down for a moment, or lost for good: `confirm` tells which, before anything is published
