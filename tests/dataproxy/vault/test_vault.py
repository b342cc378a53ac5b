"""The vault: a second person's word, exact ids for the trainer alone, each opening on record, keys that end."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, update

from atdp.samples import Lease
from dataproxy.client.review_types import Erasure, LegalHold
from dataproxy.client.types import KeyInfo, LeaseAck, LeaseRequest
from dataproxy.client.vault_types import VaultApproval, VaultAsk
from dataproxy.errors import NotAllowed, Refused
from dataproxy.lease.learned import LearnedTurns, learned_turns
from dataproxy.lease.leases import ack_lease, grant_lease
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.holds import add_hold, release_hold
from dataproxy.retain.targets import resolve
from dataproxy.store.schema import access_log, eligibility, log_leaf, training_use, vault_key, vault_segment
from dataproxy.vault.approvals import ask_approval, decide_approval, list_approvals
from dataproxy.vault.lend import Lending
from dataproxy.vault.shred import revoke_keys, shred_expired
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.lease.test_leases import reward
from tests.dataproxy.ledger.lived_in import audited, copy
from tests.dataproxy.proxy import MASK, SECRET_ID, Proxy
from workers.trainer.vault import open_sample

ASKER, OTHER = (KeyInfo(f"key-{name}", "acme", "", "reviewer", [], 0, None, None) for name in ("a", "b"))
TRAINER = KeyInfo("key-t", "", "", "trainer", [], 0, None, None)
PROMPT, OUTPUT, MORE, LAST = [1, SECRET_ID, 3], [7, SECRET_ID, 9], [1, SECRET_ID, 3, 7, SECRET_ID, 9, 4, SECRET_ID], [8, 9]
DAY_US = 86_400_000_000


def asked(proxy: Proxy, days: float = 7, agent: str = "") -> VaultApproval:
    with proxy.services.database.write() as connection:
        return ask_approval(connection, VaultAsk("acme", days, "exact training", agent), ASKER.key_id, proxy.clock())


def said_of(proxy: Proxy, approval: VaultApproval, action: str, by: KeyInfo = OTHER) -> VaultApproval:
    with proxy.services.database.write() as connection:
        return decide_approval(connection, approval, action, "fine", by, proxy.clock())


async def conversation(proxy: Proxy, **changes: Any) -> str:
    """Two joined calls, most of whose tokens redaction overwrites; rewarded and settled."""
    where = {"started_us": proxy.clock(), "ended_us": proxy.clock()} | changes
    first = exchange([user("a")], "b", prompt=PROMPT, outputs=[OUTPUT], user="ann", **where)
    second = exchange([user("a"), said("b"), user("c")], "d", prompt=MORE, outputs=[LAST], user="ann", **where)
    journal = proxy.journal()
    await write(journal, first, second)
    journal.close()
    proxy.drain()
    reward(proxy, second[0].event_id)
    proxy.clock.advance(3)
    return second[0].event_id


def lease(proxy: Proxy, reader: KeyInfo | None = TRAINER, **changes: Any) -> Lease:
    asks = {"max_trajectories": 9, "ttl_s": 60, "version_now": "v000000", "max_staleness": 1, "max_reuse": 1} | changes
    vault = Lending(reader, proxy.services.vault_private, proxy.clock()) if reader is not None else None
    with proxy.services.database.write() as connection:
        return grant_lease(connection, LeaseRequest(**asks), "", "key-t", None, proxy.clock(), 2, vault)


def erase_it(proxy: Proxy, scope: str, name: str) -> Erasure:
    with proxy.services.database.write() as connection:
        plan = plan_erasure(connection, resolve(connection, "acme", scope, name, proxy.services.digests("acme")))
        return erase(connection, plan, "asked for it", "key-9", proxy.clock())


def returned(proxy: Proxy, held: Lease) -> None:
    with proxy.services.database.write() as connection:
        ack_lease(connection, "", held.lease_id, LeaseAck("returned"), proxy.clock())


async def test_rows_of_the_vault_are_the_engines_raw_ids_id_for_id(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    (sample,) = lease(proxy).samples
    (masked,) = sample.sequences
    assert MASK in masked.ids() and SECRET_ID not in masked.ids() and len(masked.vaulted) == 2
    (row,) = open_sample(sample).sequences
    assert row.ids().tolist() == [*MORE, *LAST] and not any(row.altered)
    assert row.mask().tolist() == [False] * 3 + [True] * 3 + [False] * 2 + [True] * 2
    assert np.array_equal(row.behaviour_logprobs()[row.mask()], np.full(5, -0.5, np.float32))
    assert {turn.event_id for turn in row.turns} == {turn.event_id for turn in masked.turns} and row.vaulted == []
    assert {one.reason for one in proxy.rows(select(eligibility.c.reason))} == {"vault_only"}


async def test_nothing_is_kept_before_another_person_approves(proxy: Proxy) -> None:
    approval = asked(proxy)
    with pytest.raises(NotAllowed, match="another person"):
        said_of(proxy, approval, "approve", by=ASKER)
    await conversation(proxy)
    assert proxy.count(vault_segment) == proxy.count(vault_key) == 0
    assert lease(proxy).samples == []
    with pytest.raises(Refused, match="denied"):
        said_of(proxy, said_of(proxy, approval, "deny"), "approve")


async def test_each_opening_is_a_leaf_and_training_says_that_raw_ids_were_used(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    held = lease(proxy)
    read = select(access_log.c.what, access_log.c.target, access_log.c.key_id, access_log.c.event_id)
    ((what, target, key_id, event_id),) = proxy.rows(read)
    assert (what, target, key_id) == ("vault", held.samples[0].trajectory_id, "key-t")
    assert proxy.rows(select(func.count()).select_from(log_leaf).where(log_leaf.c.row_key == event_id))[0][0] == 2
    with proxy.services.database.write() as connection:
        ack_lease(connection, "", held.lease_id, LeaseAck("trained", "v000001", [target]), proxy.clock())
    assert [bool(row.vaulted) for row in proxy.rows(select(training_use.c.vaulted))] == [True]
    with proxy.services.database.read() as connection:
        lent, kept = (learned_turns(connection, "acme", [target], 0, proxy.clock(), to)[target] for to in ({target}, set[str]()))
    assert (lent, kept) == (LearnedTurns(2, 2, {}), LearnedTurns(2, 0, {"altered": 2}))
    assert erase_it(proxy, "trajectory", target).vaulted_versions == ["v000001"]


@pytest.mark.slow
async def test_a_preview_and_another_role_get_no_key(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    assert lease(proxy, preview=True).skipped == lease(proxy, reader=None).skipped == {"altered": 1}
    assert proxy.count(access_log) == 0


@pytest.mark.slow
async def test_an_agents_approval_is_not_another_agents(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy, agent="billing"), "approve")
    await conversation(proxy)
    assert proxy.count(vault_segment) == 0
    await conversation(proxy, agent="billing")
    assert proxy.count(vault_segment) == 2


async def test_a_key_ends_with_its_time_but_not_under_a_hold(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy, days=1), "approve")
    await conversation(proxy)
    with proxy.services.database.write() as connection:
        hold = add_hold(connection, LegalHold("acme", "subject", _subject(proxy), "case 7"), "key-9", 1)
    proxy.clock.advance(DAY_US / 1e6)
    assert lease(proxy).skipped == {"legal_hold": 1}
    assert shred_expired(proxy.services.database, proxy.clock()) == 0 and proxy.count(vault_key) == 1
    with proxy.services.database.write() as connection:
        release_hold(connection, "acme", hold.hold_id, "closed", "key-9", 2)
    assert shred_expired(proxy.services.database, proxy.clock()) == 1
    assert proxy.count(vault_key) == proxy.count(vault_segment) == 0


def _subject(proxy: Proxy) -> str:
    return proxy.services.digests("acme").of(b"subject", b"ann").hex()


@pytest.mark.slow
async def test_revoking_destroys_the_keys_at_once(proxy: Proxy) -> None:
    approval = said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    with proxy.services.database.write() as connection:
        assert list_approvals(connection, "acme")[0].num_keys == 1
        decide_approval(connection, approval, "revoke", "over", ASKER, proxy.clock())
        assert revoke_keys(connection, "acme", approval.approval_id, proxy.clock()) == (1, 0)
    assert proxy.count(vault_segment) == 0 and lease(proxy).skipped == {"altered": 1}
    await conversation(proxy)
    assert proxy.count(vault_segment) == 0


async def test_erasure_takes_key_and_segments_and_the_log_still_verifies(proxy: Proxy, store_kind: str, tmp_path: Any) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    erase_it(proxy, "subject", "ann")
    assert proxy.count(vault_key) == proxy.count(vault_segment) == 0
    if store_kind == "sqlite":
        proxy.services.checkpoints.cut()
        report = audited(proxy, *copy(proxy, tmp_path / "copy"))
        assert report.ok, report.problems


async def test_only_ciphertext_lies_in_the_store_and_a_changed_key_is_not_lent(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    raw = np.array([*MORE, *LAST], "<i4").tobytes()
    assert raw not in proxy.everything_at_rest() and raw[:12] not in proxy.everything_at_rest()
    returned(proxy, lease(proxy))
    with proxy.services.database.write() as connection:
        connection.execute(update(vault_key).values(wrapped=bytes(80)))
    assert lease(proxy).skipped == {"altered": 1}


@pytest.mark.slow
async def test_what_was_changed_in_the_store_stays_masked(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    with proxy.services.database.write() as connection:
        connection.execute(update(vault_segment).values(sealed=bytes(90)))
    (sample,) = lease(proxy).samples
    (row,) = open_sample(sample).sequences
    assert SECRET_ID not in row.ids() and any(row.altered)


async def test_a_changed_key_does_not_stop_the_drain(proxy: Proxy) -> None:
    said_of(proxy, asked(proxy), "approve")
    first = exchange([user("a")], "b", prompt=PROMPT, outputs=[OUTPUT], session="one")
    second = exchange([user("a"), said("b"), user("c")], "d", prompt=MORE, outputs=[LAST], session="one")
    journal = proxy.journal()
    await write(journal, first)
    proxy.drain()
    with proxy.services.database.write() as connection:
        connection.execute(update(vault_key).values(wrapped=bytes(80)))
    await write(journal, second)
    journal.close()
    assert proxy.drain() == 1 and proxy.count(vault_segment) == 1


@pytest.mark.slow
async def test_a_key_that_a_hold_keeps_after_revocation_is_handed_to_nobody(proxy: Proxy) -> None:
    approval = said_of(proxy, asked(proxy), "approve")
    await conversation(proxy)
    with proxy.services.database.write() as connection:
        add_hold(connection, LegalHold("acme", "tenant", "", "case 7"), "key-9", 1)
        decide_approval(connection, approval, "revoke", "over", ASKER, proxy.clock())
        assert revoke_keys(connection, "acme", approval.approval_id, proxy.clock()) == (0, 1)
    assert proxy.count(vault_key) == 1 and lease(proxy).skipped == {"legal_hold": 1}
    assert shred_expired(proxy.services.database, proxy.clock()) == 0
