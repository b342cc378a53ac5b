"""A store that has seen some life, for tests that audit it: two tenants, conversations, rewards, training, reads, a quarantine."""

import shutil
from pathlib import Path

from sqlalchemy import select

from atdp.samples import BatchManifest
from atdp.versions import PolicyVersion
from dataproxy.api.review_routes import mark_event
from dataproxy.client.order_types import OrderAsk
from dataproxy.client.review_types import AuditReport, Retention
from dataproxy.client.types import Feedback, KeyInfo, LeaseAck, LeaseRequest, RecordingPolicy
from dataproxy.client.vault_types import ReviewMark, VaultAsk
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.leases import ack_lease, grant_lease
from dataproxy.ledger.offline import audit_files
from dataproxy.ledger.verify import verify
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.retain.retention import set_retention
from dataproxy.store import versions
from dataproxy.store.access import record_access
from dataproxy.store.recording import add_recording_policy
from dataproxy.store.redaction import add_policy
from dataproxy.store.schema import event
from dataproxy.store.version_orders import ask_order
from dataproxy.vault.approvals import ask_approval
from tests.dataproxy.exchanges import MAC_SECRET, exchange, said, user, write
from tests.dataproxy.proxy import BROKEN_WORD, SECRET_ID, SECRET_WORD, Clock, Proxy

READER = KeyInfo("key-7", "acme", "triage", "reviewer", [], 0, None, None)


async def live(proxy: Proxy, clock: Clock) -> None:
    """A day in the life of two tenants: all that happens by itself, and two checkpoints of each log."""
    proxy.consent("other")
    first = await _conversations(proxy, "acme")
    await _conversations(proxy, "other")
    proxy.services.checkpoints.cut()
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    with proxy.services.database.write() as connection:
        item = Feedback(first, 1.0, label="good", explanation="it helped", idempotency_key="once")
        give_feedback(connection, desk, item, "key-1", clock())
        give_feedback(connection, desk, Feedback(first, correction="say less"), "key-1", clock())
    clock.advance(10)
    with proxy.services.database.write() as connection:
        terms = LeaseRequest(8, 60.0, "v000000", 4, 1)
        lease = grant_lease(connection, terms, "", "key-2", None, clock(), 2.0)
        assert lease.samples, lease.skipped
        ack_lease(connection, "", lease.lease_id, LeaseAck("trained", "v000001", [lease.samples[0].trajectory_id]), clock())
        versions.register_version(connection, _version("v000001"), "key-2", clock())
        versions.store_batch(connection, _manifest(lease.lease_id, lease.samples[0].trajectory_id))
        record_access(connection, READER, "acme", "trajectory", "whatever", clock())
    proxy.services.checkpoints.cut()


def decide(proxy: Proxy, clock: Clock) -> None:
    """What people decide of that life, a row each: policies, an order, an approval of the vault, a mark of a review."""
    with proxy.services.database.write() as connection:
        add_recording_policy(connection, RecordingPolicy("acme", True, "serve on", clock()), "key-9")
        add_policy(connection, "acme", RedactionPolicy(names=("PERSON",)), "names too", "key-9", clock())
        set_retention(connection, Retention("acme", "support", 9e4, "contract"), "key-9", clock())
        ask_approval(connection, VaultAsk("acme", 1.0, "rare words"), "key-8", clock())
        versions.register_version(connection, PolicyVersion("v000002", "v000001", "published", 2, "weights"), "key-2", clock())
        ask_order(connection, OrderAsk("v000002", "canary", "try it", 0.5), "key-9", clock())
        event_id = connection.execute(select(event.c.event_id).where(event.c.tenant == "acme")).scalars().first()
    assert event_id is not None
    mark_event(proxy.services, READER, event_id, ReviewMark("right", reason="as it should be"))


def copy(proxy: Proxy, directory: Path) -> tuple[Path, Path]:
    """A copy of the database and of the checkpoints file, to be tampered with. The original must be closed or idle."""
    store = directory / "store"
    store.mkdir(parents=True)
    for name in ("headrace.db", "headrace.db-wal"):
        if (proxy.data_dir / "store" / name).exists():
            shutil.copyfile(proxy.data_dir / "store" / name, store / name)
    (directory / "ledger").mkdir()
    shutil.copyfile(proxy.services.checkpoints.file, directory / "ledger" / "checkpoints.jsonl")
    return store / "headrace.db", directory / "ledger" / "checkpoints.jsonl"


def audited(proxy: Proxy, database: Path, checkpoints: Path, public: bytes | None = None) -> AuditReport:
    """What the audit says of a copy, by the ledger's key or by another one."""
    *_, report = audit_files(database, checkpoints, public or proxy.files.ledger_public())
    assert isinstance(report, AuditReport)
    return report


def verified(proxy: Proxy) -> AuditReport:
    """What the audit says of the store as it is, on either database."""
    checkpoints = proxy.services.checkpoints
    checkpoints.cut()
    with proxy.services.database.read() as connection:
        *_, report = verify(connection, None, checkpoints.signer.verifier, checkpoints.read_file())
    assert isinstance(report, AuditReport)
    return report


async def _conversations(proxy: Proxy, tenant: str) -> str:
    """Two turns of one conversation, one of another with a secret, and one that cannot be redacted; gives the first answer's id."""
    journal = proxy.journal()
    opening = [{"role": "system", "content": "be brief"}, user(f"hello from {tenant}")]
    asked, got = exchange(opening, "hi", prompt=[1, 2, 3], tenant=tenant, user="ann")
    turns = [*opening, said("hi"), user("and now?")]
    second = exchange(turns, "later", prompt=[1, 2, 3, 7, 8, 9, 4], tenant=tenant, user="ann")
    other = [opening[0], user(f"my word is {SECRET_WORD}")]
    third = exchange(other, "noted", prompt=[1, SECRET_ID, 5], tenant=tenant, user="bob", session=f"named-{tenant}")
    broken = exchange([user(BROKEN_WORD)], "no", tenant=tenant)
    await write(journal, (asked, got), second, third, broken)
    journal.close()
    proxy.drain()
    return asked.completion_id


def _version(name: str) -> PolicyVersion:
    return PolicyVersion(name, None, "serving", 1, "weights")


def _manifest(lease_id: str, trajectory_id: str) -> BatchManifest:
    return BatchManifest("b1", lease_id, "v000000", "v000001", 1, [trajectory_id], {trajectory_id: 1.0}, 1)
