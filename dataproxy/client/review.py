"""The reviewer's client: audits, reads on record, evidence, erasure, holds and retention. It blocks; close it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dataproxy.client import review_calls
from dataproxy.client.auditing import save_evidence, stream_audit
from dataproxy.client.review_types import (
    AccessPage,
    AuditProgress,
    AuditReport,
    CosignatureAdded,
    CosignatureKept,
    Erasure,
    ErasureRequest,
    LegalHold,
    Retention,
    SearchRequest,
)
from dataproxy.client.sync_client import SyncDataProxyClient
from dataproxy.client.types import EventPage
from dataproxy.client.vault_types import ReviewMark, ReviewMarked, ReviewPage, VaultApproval, VaultAsk, VaultRevoked


class ReviewClient(SyncDataProxyClient):
    """What ``SyncDataProxyClient`` can, and what a reviewer needs. Each method may raise DataProxyClientError."""

    def audit(self, witnesses: Sequence[str] = ()) -> Iterator[AuditProgress | AuditReport]:
        """Check every log against the store; the report comes last. Each of ``witnesses`` (verifier keys) must have cosigned."""
        return stream_audit(self._http, witnesses)

    def save_evidence(self, file: Path, **which: str) -> None:
        """Write evidence of ``tenant`` and, if given, a ``subject``, ``session`` or ``trajectory`` of it to ``file``, a zip."""
        save_evidence(self._http, dict(which), file)

    def access_log(
        self, limit: int = 50, after: str | None = None, reader: str | None = None, target: str | None = None
    ) -> AccessPage:
        """Who read what, oldest first."""
        return self._send(review_calls.access_log(limit, after, reader, target))

    def search(self, request: SearchRequest) -> EventPage:
        """A page of events; a page may be empty and yet have a next one, for each looks at a bounded number of events."""
        return self._send(review_calls.search(request))

    def erase(self, request: ErasureRequest) -> Erasure:
        """Erase, or say what that would do."""
        return self._send(review_calls.erase(request))

    def list_holds(self, released: bool = False) -> list[LegalHold]:
        """Holds in force; with those that ended."""
        return self._send(review_calls.list_holds(released))

    def add_hold(self, hold: LegalHold) -> LegalHold:
        """Put a hold on something."""
        return self._send(review_calls.add_hold(hold))

    def release_hold(self, hold_id: str, reason: str) -> LegalHold:
        """End a hold."""
        return self._send(review_calls.release_hold(hold_id, reason))

    def list_retention(self) -> list[Retention]:
        """Every word on record, oldest first."""
        return self._send(review_calls.list_retention())

    def set_retention(self, item: Retention) -> Retention:
        """Say how long something is kept."""
        return self._send(review_calls.set_retention(item))

    def witness_request(self, tenant: str, old: int = 0) -> str:
        """What to ask a witness with that has seen ``old`` leaves of ``tenant``'s log."""
        return self._send(review_calls.witness_request(tenant, old))

    def add_cosignature(self, added: CosignatureAdded) -> CosignatureKept:
        """Keep what a witness answered."""
        return self._send(review_calls.add_cosignature(added))

    def list_approvals(self) -> list[VaultApproval]:
        """Requests to keep raw tokens and what became of them, oldest first."""
        return self._send(review_calls.list_approvals())

    def ask_approval(self, ask: VaultAsk) -> VaultApproval:
        """Ask that raw tokens be kept; somebody else must approve."""
        return self._send(review_calls.ask_approval(ask))

    def decide_approval(self, approval_id: str, action: str, reason: str) -> VaultApproval:
        """Approve or deny."""
        return self._send(review_calls.decide_approval(approval_id, action, reason))

    def revoke_approval(self, approval_id: str, reason: str) -> VaultRevoked:
        """End an approval and destroy its keys."""
        return self._send(review_calls.revoke_approval(approval_id, reason))

    def list_review(self, why: str = "low_confidence", after: str = "", limit: int = 50) -> ReviewPage:
        """Redactions to look at, newest first."""
        return self._send(review_calls.list_review(why, after, limit))

    def mark_event(self, event_id: str, mark: ReviewMark) -> ReviewMarked:
        """Say what is right, missed or false in an event's redaction."""
        return self._send(review_calls.mark_event(event_id, mark))
