"""Two tenants with everything that a tenant can have, names of theirs, and names of the same form that nothing has."""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import select

from atdp.samples import BatchManifest
from dataproxy.client.review_types import LegalHold
from dataproxy.client.trajectory_types import SavedView, TrajectoryQuery
from dataproxy.client.types import Feedback, LeaseRequest
from dataproxy.client.vault_types import VaultAsk
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.leases import grant_lease
from dataproxy.retain.holds import add_hold
from dataproxy.store.schema import api_key, event, metadata, reward, session, trajectory
from dataproxy.store.versions import store_batch
from dataproxy.store.views import add_view
from dataproxy.vault.approvals import ask_approval
from tests.dataproxy.exchanges import MAC_SECRET, exchange, said, user, write
from tests.dataproxy.isolation.attempts import (
    AGENT,
    APPROVAL,
    BATCH,
    COMPLETION,
    EVENT,
    HOLD,
    KEY,
    LEASE,
    OWN_TENANT,
    REWARD,
    SESSION,
    TENANT,
    TRAJECTORY,
    VIEW,
    Attempt,
)
from tests.dataproxy.proxy import Proxy

OURS, THEIRS = OWN_TENANT, "other"
CANARY = "quetzal-canary"
"""Stands in every text of THEIRS."""
_HEX = re.compile(r"[0-9a-f]{8,}")


async def settle(proxy: Proxy) -> dict[str, list[str]]:
    """Fill both tenants; gives THEIRS names by kind."""
    journal, completions = proxy.journal(), []
    for owner, mark in ((OURS, "ours"), (THEIRS, CANARY)):
        proxy.consent(owner)
        now = proxy.clock()
        for number in range(4):
            name = f"{mark}-session-{number}"
            where: dict[str, Any] = {"tenant": owner, "agent": f"{mark}-agent", "session": name, "started_us": now, "ended_us": now}
            first = exchange([user(f"{mark} {number}")], f"{mark} answer", prompt=[1, number], **where)
            second = exchange(
                [user(f"{mark} {number}"), said(f"{mark} answer"), user(f"{mark} more")], prompt=[1, number, 3], **where
            )
            await write(journal, first, second)
            completions += [first[0].completion_id, second[0].completion_id] if owner == THEIRS else []
    journal.close()
    proxy.drain()
    proxy.clock.advance(10)
    for owner in (OURS, THEIRS):
        for role in ("reviewer", "agent", "trainer", "admin", "gateway"):
            proxy.key(role, owner)
        _learn(proxy, owner)
    return {
        EVENT: _theirs(proxy, event, "event_id"),
        TRAJECTORY: _theirs(proxy, trajectory, "trajectory_id"),
        SESSION: _theirs(proxy, session, "session_id"),
        REWARD: _theirs(proxy, reward, "reward_id"),
        KEY: _theirs(proxy, api_key, "key_id"),
        HOLD: _theirs(proxy, metadata.tables["legal_hold"], "hold_id"),
        LEASE: _theirs(proxy, metadata.tables["lease"], "lease_id"),
        BATCH: _theirs(proxy, metadata.tables["batch"], "batch_id"),
        COMPLETION: completions,
        VIEW: _theirs(proxy, metadata.tables["saved_view"], "view_id"),
        APPROVAL: _theirs(proxy, metadata.tables["vault_approval"], "approval_id"),
        TENANT: [THEIRS],
        AGENT: [f"{CANARY}-agent"],
    }


def _theirs(proxy: Proxy, table: Any, column: str) -> list[str]:
    return sorted({row[0] for row in proxy.rows(select(table.c[column]).where(table.c.tenant == THEIRS)) if row[0]})


def _learn(proxy: Proxy, owner: str) -> None:
    database, now = proxy.services.database, proxy.clock()
    targets = [row[0] for row in proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.tenant == owner))]
    with database.write() as connection:
        desk = Desk(owner, MAC_SECRET, proxy.services.digests(owner))
        for target in targets:
            give_feedback(connection, desk, Feedback(target, 0.5, explanation=f"{owner} said so"), "key-1", now)
        asked = LeaseRequest(2, 3600, "v000000", 1, 1)
        lease = grant_lease(connection, asked, owner, "key-t", owner, now, settle_s=2)
        ids = [sample.trajectory_id for sample in lease.samples]
        ask_approval(connection, VaultAsk(owner, 1, f"{owner} asks"), "key-1", now)
        add_hold(connection, LegalHold(owner, "trajectory", targets[0], f"{owner}'s case"), "key-1", now)
        add_view(connection, owner, SavedView(f"{owner}'s view", TrajectoryQuery(text=owner)), "key-1", now)
        batch_id = f"batch-{owner}"
        store_batch(connection, BatchManifest(batch_id, lease.lease_id, "v000000", "v000001", now, ids, {}, now), owner)


def ghost(name: str) -> str:
    """A name of the same form that nobody has; always the same, so that what the caller's own tries left behind is alike too."""
    draw = random.Random(name)
    if not _HEX.search(name):
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") if letter.isalpha() else letter for letter in name)
    return _HEX.sub(lambda found: "".join(draw.choice("0123456789abcdef") for _ in found.group()), name)


def everything_of(proxy: Proxy, tenant: str) -> dict[str, list[bytes]]:
    """Every row of ``tenant``, by table."""
    tables = [table for table in metadata.sorted_tables if "tenant" in table.c]
    found = {table.name: proxy.rows(select(table).where(table.c.tenant == tenant)) for table in tables}
    return {name: sorted(msgspec.json.encode(list(row)) for row in rows) for name, rows in found.items()}


def put(value: Any, **names: str) -> Any:
    """``value`` with each ``{key}`` of ``names`` in it replaced."""
    if isinstance(value, dict):
        return {key: put(item, **names) for key, item in value.items()}
    if isinstance(value, list):
        return [put(item, **names) for item in value]
    if isinstance(value, str):
        for key, name in names.items():
            value = value.replace(f"{{{key}}}", name)
    return value


def draws(seed: int, attempts: Sequence[Attempt], count: int) -> Iterator[tuple[random.Random, Attempt, str]]:
    """``count`` of (generator, attempt, kind): each pair once, then at random; what claims a name comes last and once."""
    draw = random.Random(seed)
    pairs = [(attempt, kind) for attempt in attempts for kind in attempt.kinds or ("",)]
    asking, claiming = [pair for pair in pairs if not pair[0].claims], [pair for pair in pairs if pair[0].claims]
    chosen = asking + [draw.choice(asking) for _ in range(count - len(pairs))] + claiming
    for number, (attempt, kind) in enumerate(chosen):
        yield random.Random(seed * 100_003 + number), attempt, kind
