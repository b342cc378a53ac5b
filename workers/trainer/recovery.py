"""Recovery: finishes or undoes the step that a predecessor left, so that no sample is trained on twice by a version that served.

Owns the decision. A version that served is acked; one that is complete, and announced or with its lease still held, is
published and acked; anything else never happened: its directory goes, its lease returns. Runs on the first rank, before
anything is leased.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from atdp.versions import VersionState
from dataproxy.client import BadRequest, NotFound
from dataproxy.client.types import LeaseAck
from workers.trainer.data_proxy import DataProxy
from workers.trainer.errors import Superseded
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish import Publisher
from workers.trainer.step_record import StepRecord, clear_record, read_record
from workers.trainer.version_directory import discard, is_complete, read_manifest

logger = logging.getLogger(__name__)


def recover(paths: TrainerPaths, data_proxy: DataProxy, publisher: Publisher, lease_ttl_s: float) -> None:
    """Bring disk, record and engines to a state between two steps.

    Raises: SwapFailed where a version had to be published and the engines did not take it.
    """
    record = read_record(paths.step_record)
    if record is None:
        return
    state = _state(data_proxy, record.version)
    if state in ("serving", "canary", "retired"):
        finish(paths, data_proxy, record)
    elif _is_complete(paths, record) and (state == "published" or _holds_lease(data_proxy, record, lease_ttl_s)):
        try:
            publisher.publish(paths.versions / record.version)
            logger.info("published %s, which an earlier run had made", record.version)
            finish(paths, data_proxy, record)
        except Superseded as error:
            logger.info("dropped %s: %s", record.version, error)
            undo(paths, data_proxy, record)
    else:
        undo(paths, data_proxy, record)


def finish(paths: TrainerPaths, data_proxy: DataProxy, record: StepRecord) -> None:
    """Say what was trained on, and close the step. An ack may come late, and twice."""
    data_proxy.ack_lease(record.lease_id, LeaseAck("trained", record.version, record.trained, record.skipped))
    clear_record(paths.step_record)


def undo(paths: TrainerPaths, data_proxy: DataProxy, record: StepRecord) -> None:
    """Make the step not have happened: no directory, and its samples free again. Not for a version that served."""
    discard(paths.versions / record.version)
    if _state(data_proxy, record.version) == "published":
        data_proxy.register_version(replace(data_proxy.get_version(record.version), state="failed"))
    try:
        data_proxy.ack_lease(record.lease_id, LeaseAck("returned", skipped=record.skipped))
    except NotFound:
        logger.info("%s is unknown; nothing to return", record.lease_id)
    clear_record(paths.step_record)


def _is_complete(paths: TrainerPaths, record: StepRecord) -> bool:
    """Whether the directory is there, and of this very batch."""
    directory = paths.versions / record.version
    return is_complete(directory) and read_manifest(directory).batch_id == record.batch_id


def _holds_lease(data_proxy: DataProxy, record: StepRecord, lease_ttl_s: float) -> bool:
    """Whether the samples are still lent to us; if not, somebody else may train on them."""
    try:
        data_proxy.renew_lease(record.lease_id, lease_ttl_s)
    except (BadRequest, NotFound):
        return False
    return True


def _state(data_proxy: DataProxy, version: str) -> VersionState | None:
    """The version's state on record. "published" says that a swap had begun, so that the engines may hold it."""
    try:
        return data_proxy.get_version(version).state
    except NotFound:
        return None
