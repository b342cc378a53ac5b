"""The drain's loop: poll the journal, govern each exchange, store the batch and the offsets in one transaction, retire segments.

At least once from the journal, exactly once in the store. It runs in a thread of its own beside the API.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from atdp.faults import point
from dataproxy.admit import AdmissionPolicy, Decision
from dataproxy.assemble.place import place
from dataproxy.client.vault_types import VaultApproval
from dataproxy.digests import KeyedDigests, tenant_key
from dataproxy.drain.exchange import RawExchange
from dataproxy.drain.govern import Governed, Rules, govern
from dataproxy.drain.quarantine import insert_quarantined, orphan_row, quarantine_row
from dataproxy.drain.redaction import Redactors
from dataproxy.drain.retries import earlier_attempts
from dataproxy.drain.source import JournalSource
from dataproxy.drain.spend import add_spend
from dataproxy.drain.usage import add_usage
from dataproxy.errors import Unprocessable
from dataproxy.ingest.tool_calls import Brought, with_tool_calls
from dataproxy.journal_keys import PrivateKeys, destroy_unneeded
from dataproxy.keyfiles import KeyFiles
from dataproxy.redact import RedactionFailed
from dataproxy.store.consents import ConsentBook
from dataproxy.store.conversations import ConversationIndex
from dataproxy.store.database import Database
from dataproxy.store.events import insert_events, next_position, stored_events
from dataproxy.store.known import known_exchanges
from dataproxy.store.offsets import forget_offsets, read_offsets, write_offsets
from dataproxy.store.pending import expire_pending, settle_pending
from dataproxy.vault.approvals import ApprovalBook
from dataproxy.vault.seal import ToSeal, VaultWriter

logger = logging.getLogger(__name__)
_IDLE_S = 0.05
_RETRY_S = 1.0
_MOST_BATCHES = 4
"""A drain that is behind stores so many times more at once: a commit costs much the same, however much is in it."""


@dataclass(slots=True, frozen=True)
class DrainKeys:
    """``private`` open the journal, ``public`` seals the quarantine, ``secret`` is behind every tenant's key.

    ``files``: where old private keys lie until no segment needs them.
    """

    private: PrivateKeys
    public: bytes
    secret: bytes
    files: KeyFiles


class Drain:
    """Drains ``journal`` into ``database``. ``tokenizer`` is the fingerprint of the engine's; ``now_us`` gives UTC µs."""

    def __init__(
        self,
        journal: Path,
        database: Database,
        keys: DrainKeys,
        redactors: Redactors,
        policy: AdmissionPolicy,
        *,
        tokenizer: str = "",
        batch_size: int = 128,
        session_idle_s: float = 300.0,
        pending_days: float = 1.0,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._journal = journal
        self._database = database
        self._keys = keys
        self._redactors = redactors
        self._policy = policy
        self._tokenizer = tokenizer
        self._batch_size = self._limit = batch_size
        self._session_idle_us = int(session_idle_s * 1e6)
        self._pending_us = int(pending_days * 86400e6)
        self._swept_us = 0
        self._now_us = now_us
        self._vault = VaultWriter(keys.files, now_us)
        self._digests: dict[str, KeyedDigests] = {}
        self._written: dict[str, int] = {}
        self._reprocessing = threading.Lock()
        self._source = self._fresh_source()
        self._source.sweep()

    def run(self, stop: threading.Event) -> None:
        """Drain until ``stop`` is set. A database that is busy, full or away is tried again; nothing is lost meanwhile."""
        refused = False
        while not stop.is_set():
            try:
                if refused:  # what was read and not stored is read again
                    self._source, refused = self._fresh_source(), False
                if not self.run_once():
                    stop.wait(_IDLE_S)
            except OperationalError as error:
                logger.error("the store refused a batch, trying again in %s s: %s", _RETRY_S, error.orig)
                refused = True
                stop.wait(_RETRY_S)

    def run_once(self) -> int:
        """One batch; gives the number of exchanges that it took out of the journal."""
        batch = sorted(self._source.poll(self._limit), key=lambda raw: raw.request.started_us)
        self._limit = min(2 * self._limit, _MOST_BATCHES * self._batch_size) if len(batch) >= self._limit else self._batch_size
        fresh, quarantined = self._unknown(batch)
        set_aside = {row["event_id"] for row in quarantined}
        governed, ungoverned = self._govern([raw for raw in fresh if raw.request.event_id not in set_aside])
        quarantined += ungoverned
        offsets = {name: at for name, at in self._source.offsets().items() if self._written.get(name) != at}
        if governed or quarantined or offsets:
            self._store(governed, quarantined, offsets, fresh)
            self._written.update(offsets)
            point("dataproxy.after_commit")
        self._source.settle()
        if retired := self._source.retire():
            with self._database.write() as connection:
                forget_offsets(connection, retired)
            for name in retired:
                self._written.pop(name, None)
        self._expire()
        return len(batch)

    def reprocess(self, batch: Sequence[RawExchange], try_only: bool = False) -> dict[str, str]:
        """Govern exchanges of the quarantine again and store those that can be, unless ``try_only``. Any thread.

        Gives the reason of each that cannot. Their use and cost were counted when they came.
        """
        with self._reprocessing:
            with self._database.read() as connection:
                stored = stored_events(connection, [raw.request.event_id for raw in batch])
            governed, failed = self._govern([raw for raw in batch if raw.request.event_id not in stored])
            if governed and not try_only:
                self._store(governed, [], {}, [])
        return {row["event_id"]: row["reason"] for row in failed}

    def quarantine_private(self) -> bytes:
        """The key that opens the quarantine.

        Raises:
            FileNotFoundError: it does not lie on this machine.
        """
        return self._keys.files.quarantine_private()

    @property
    def policy(self) -> AdmissionPolicy:
        """What it decides by whether something may train."""
        return self._policy

    def backlog_bytes(self) -> int:
        """Bytes of the journal not drained yet; 0 means that every whole exchange in it is stored."""
        return self._source.backlog_bytes()

    def _expire(self) -> None:
        """Once a minute: rewards whose exchange never came become dead letters, old keys that open nothing are destroyed."""
        now_us = self._now_us()
        if now_us - self._swept_us > 60e6:
            self._swept_us = now_us
            destroy_unneeded(self._keys.files, self._journal)
            with self._database.write() as connection:
                if num_expired := expire_pending(connection, now_us - self._pending_us, now_us):
                    logger.warning("%s rewards waited in vain for their exchange and are dead letters now", num_expired)

    def _fresh_source(self) -> JournalSource:
        self._written.clear()
        with self._database.read() as connection:
            return JournalSource(self._journal, self._keys.private, read_offsets(connection))

    def _unknown(self, batch: list[RawExchange]) -> tuple[list[RawExchange], list[dict[str, Any]]]:
        """Those of ``batch`` that are not stored yet, and quarantine rows for answers whose request is nowhere.

        And for exchanges of ``batch`` whose id an agent has given to an event that it sent: it knows the id from its answer's head,
        before we do, and must not keep its call off the record by that.
        """
        orphans = self._source.take_orphans()
        if not batch and not orphans:
            return [], []
        ids = [raw.request.event_id for raw in batch] + [half.event_id for _, half in orphans]
        with self._database.read() as connection:
            known, taken = known_exchanges(connection, ids)
        lost = [(tenant, half) for tenant, half in orphans if half.event_id not in known]
        rows = [orphan_row(tenant, half, self._keys.public, self._now_us()) for tenant, half in lost]
        fresh = [raw for raw in batch if raw.request.event_id not in known]
        claimed = [raw for raw in fresh if (raw.request.tenant, raw.request.event_id) in taken]
        rows += [quarantine_row(raw, "id_taken", self._keys.public, self._now_us()) for raw in claimed]
        return fresh, rows

    def _govern(self, batch: list[RawExchange]) -> tuple[list[Governed], list[dict[str, Any]]]:
        if not batch:
            return [], []
        with self._database.read() as connection:
            consents, approvals = ConsentBook.read(connection), ApprovalBook.read(connection)
        governed, quarantined = [], []
        for raw in batch:
            try:
                governed.append(govern(raw, self._rules(raw.request.tenant, consents, approvals)))
                continue
            except RedactionFailed as error:
                reason = f"redaction_{error.reason}"
            except Unprocessable as error:
                reason = error.reason
            except OperationalError:  # the store is away: that says nothing of the exchange
                raise
            except Exception as error:  # noqa: BLE001  whatever it was, the exchange is sealed and the drain goes on
                reason = f"error_{type(error).__name__}"
            logger.error("event %s goes to the quarantine: %s", raw.request.event_id, reason)
            quarantined.append(quarantine_row(raw, reason, self._keys.public, self._now_us()))
        return governed, quarantined

    def _rules(self, tenant: str, consents: ConsentBook, approvals: ApprovalBook) -> Rules:
        if tenant not in self._digests:
            self._digests[tenant] = KeyedDigests(tenant_key(self._keys.secret, tenant))
        redactor = self._redactors.of(tenant)

        def may_train(agent: str, session_id: str) -> bool:
            return consents.may_train(tenant, agent, session_id)

        def approval_of(agent: str) -> VaultApproval | None:
            return approvals.of(tenant, agent)

        return Rules(self._digests[tenant], redactor, self._policy, self._tokenizer, may_train, approval_of)

    def _store(
        self, governed: list[Governed], quarantined: list[dict[str, Any]], offsets: dict[str, int], fresh: list[RawExchange]
    ) -> None:
        with self._database.write() as connection:
            position = next_position(connection)
            attempts = earlier_attempts(connection, governed)
            governed = [_as_retry(item, attempts.get(item.call.event_id)) for item in governed]
            index = ConversationIndex(connection, position)
            index.prefetch([item.call for item in governed])
            placed, kept = [], []
            for item in governed:
                digests = self._digests[item.call.tenant]
                where = None if item.stands_alone else place(index, digests, item.call, self._session_idle_us)
                placed.append(Brought(item.event, where, item.tool_results, digests))
                if item.raw and where is not None:
                    kept.append(_to_seal(item, where.trajectory_id))
            insert_events(connection, with_tool_calls(connection, placed), position)
            index.flush()
            self._vault.seal(connection, kept)
            insert_quarantined(connection, quarantined)
            settle_pending(connection, [(item.call.tenant, item.call.event_id) for item in governed])
            add_usage(connection, fresh)
            add_spend(connection, fresh)
            write_offsets(connection, offsets)
            point("dataproxy.mid_drain")


def _to_seal(item: Governed, trajectory_id: str) -> ToSeal:
    tokens = {choice: raw for choice, raw in item.raw.items() if item.event.decisions[choice].eligible}
    return ToSeal(item.call.tenant, trajectory_id, item.call.event_id, tokens, item.approval)


def _as_retry(item: Governed, attempt: tuple[str, bool] | None) -> Governed:
    """A repeated attempt is linked to the first, and does not train if the first does."""
    if attempt is None:
        return item
    first, trains = attempt
    decisions = item.event.decisions
    if trains:
        decisions = {c: Decision(False, "duplicate") if d.eligible else d for c, d in decisions.items()}
    num_eligible = sum(decision.eligible for decision in decisions.values())
    return replace(
        item, event=replace(item.event, decisions=decisions), call=replace(item.call, retry_of=first, num_eligible=num_eligible)
    )
