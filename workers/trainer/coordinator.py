"""The coordinator: what one rank does for all. It talks to the data proxy and the engines, and decides what comes next.

Owns the order of a step's outside effects, each of which may be the last before a crash: manifest → record → (compute) → version
directory → publish → ack → record gone. `recovery` completes or undoes any prefix of it. Not owned: computing (`loop`, `learner`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from atdp import faults
from atdp.ids import new_event_id
from atdp.samples import BatchManifest, Lease
from atdp.versions import version_name
from dataproxy.client.types import LeaseAck, LeaseRequest
from workers.trainer import provenance
from workers.trainer.adapter import Adapter
from workers.trainer.batch import Batch
from workers.trainer.data_proxy import DataProxy
from workers.trainer.engines import SwapResult
from workers.trainer.errors import EvaluationFailed, LeaseLost, Superseded
from workers.trainer.evaluation import evaluate
from workers.trainer.lease_keeper import LeaseKeeper
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish import Publisher
from workers.trainer.recovery import finish, recover, undo
from workers.trainer.settings import Settings
from workers.trainer.step_record import StepRecord, write_record
from workers.trainer.vault import opened
from workers.trainer.version_directory import BASE_VERSION, VersionManifest, next_index, write_scores, write_version
from workers.trainer.version_keeping import collect

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the loop."""


class Wait(msgspec.Struct, frozen=True, tag=True):
    """There is no full batch yet."""


class Follow(msgspec.Struct, frozen=True, tag=True):
    """Another version serves than the head: go on from it."""

    version: str


class Train(msgspec.Struct, frozen=True, tag=True):
    """Take a step on this lease."""

    lease: Lease


Order = Stop | Wait | Follow | Train


def request_of(settings: Settings, head: str) -> LeaseRequest:
    """What a full batch for `head` is asked for with."""
    return LeaseRequest(
        max_trajectories=settings.batch_trajectories,
        min_trajectories=settings.batch_trajectories,
        ttl_s=settings.lease_ttl_s,
        version_now=head,
        max_staleness=settings.max_staleness,
        max_reuse=settings.max_reuse,
        agent=settings.agent,
        tenant=settings.tenant,
    )


class Coordinator:
    """Lives on the first rank only. `stop` ends the loop between two steps."""

    def __init__(
        self, settings: Settings, paths: TrainerPaths, data_proxy: DataProxy, publisher: Publisher, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._data_proxy = data_proxy
        self._publisher = publisher
        self._stop = stop
        self._num_steps = 0

    def start(self) -> None:
        """Put v000000 on record if nothing is, and settle what an earlier run left."""
        self._publisher.publish_base(self._settings.model_path)
        recover(self._paths, self._data_proxy, self._publisher, self._settings.lease_ttl_s)

    def next_order(self, head: str) -> Order:
        """What all ranks do next. Waits for up to `poll_s` where there is nothing to do."""
        settings = self._settings
        if self._stop.is_set() or (settings.max_steps and self._num_steps >= settings.max_steps):
            return Stop()
        serving = self._publisher.serving() or BASE_VERSION
        if serving != head:
            return Follow(serving)
        lease = opened(self._data_proxy.lease(request_of(settings, head)))
        if lease.samples:
            faults.point("trainer.after_lease")
            return Train(lease)
        self._stop.wait(settings.poll_s)
        return Wait()

    def give_back(self, lease: Lease, batch: Batch) -> None:
        """Return a lease that holds nothing to train on."""
        logger.info("nothing to train on in %s: %s", lease.lease_id, dict(Counter(batch.skipped.values())))
        self._data_proxy.ack_lease(lease.lease_id, LeaseAck("returned", skipped=batch.skipped))
        self._stop.wait(self._settings.poll_s)

    def begin(self, lease: Lease, batch: Batch, parent: str) -> StepRecord:
        """Store the batch's manifest and the record of the step, before anything is computed."""
        registered = [version.version for version in self._data_proxy.list_versions()]
        version = version_name(next_index(self._paths.versions, registered))
        now_us = time.time_ns() // 1000
        trained = [sample.trajectory_id for sample in batch.samples]
        record = StepRecord(lease.lease_id, f"batch-{new_event_id()}", version, parent, trained, batch.skipped)
        self._data_proxy.store_batch(
            BatchManifest(
                batch_id=record.batch_id,
                lease_id=lease.lease_id,
                parent_version=parent,
                version=version,
                created_us=now_us,
                trajectories=trained,
                rewards={sample.trajectory_id: sample.reward for sample in batch.samples},
                as_of_us=lease.as_of_us,
                left_out=batch.left_out,
                config=provenance.config(self._settings),
            )
        )
        write_record(self._paths.step_record, record)
        return record

    def keep(self, lease: Lease) -> LeaseKeeper:
        """Hold the lease while the step is computed."""
        return LeaseKeeper(self._data_proxy, lease.lease_id, self._settings.lease_ttl_s)

    def publish(
        self,
        record: StepRecord,
        batch: Batch,
        weights: Mapping[str, Tensor],
        adapter: Adapter | None,
        metrics: dict[str, float],
        keeper: LeaseKeeper,
        critic: Mapping[str, Tensor] | None = None,
    ) -> SwapResult | None:
        """Write the version, make it serve, ack the lease; gives how it was swapped in, None where the step came to nothing.

        Raises: SwapFailed; the record stays, and the next start publishes again while the lease holds, else undoes the step.
        """
        manifest = VersionManifest(
            version=record.version,
            parent=record.parent,
            created_us=time.time_ns() // 1000,
            digests={},
            dtype=self._settings.publish_dtype,
            state=batch.state,
            batch_id=record.batch_id,
            lease_id=record.lease_id,
            trajectories=record.trained,
            metrics=metrics,
            code=provenance.code_digest(),
            config=provenance.config_digest(self._settings),
        )
        faults.point("trainer.before_publish")
        directory = write_version(self._paths.versions, manifest, weights, self._paths.versions / BASE_VERSION, adapter, critic)
        self._evaluate(directory, batch.state.steps)
        faults.point("trainer.after_publish")
        try:
            keeper.confirm()
            swap = self._publisher.publish(directory, weights)
        except (LeaseLost, Superseded) as error:
            logger.warning("step dropped: %s", error)
            undo(self._paths, self._data_proxy, record)
            return None
        faults.point("trainer.before_ack")
        finish(self._paths, self._data_proxy, record)
        self._num_steps += 1
        collect(self._paths.versions, record.version, self._settings.keep_versions, self._publisher.in_use() or {record.version})
        return swap

    def _evaluate(self, directory: Path, steps: int) -> None:
        """Score a version that is about to serve; without a score it serves all the same."""
        settings = self._settings
        if not settings.evaluate or steps % settings.evaluate_every:
            return
        try:
            scores = evaluate(settings.evaluate, directory, settings.evaluate_timeout_s)
        except EvaluationFailed as error:
            logger.warning("%s has no held-out score: %s", directory.name, error)
            scores = {"evaluation_failed": 1.0}
        write_scores(directory, scores)
