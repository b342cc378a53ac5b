"""The API over a real Unix socket through both clients: keys, roles, tenants, leases, versions, and reads on record."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from atdp.samples import BatchManifest
from atdp.versions import PolicyVersion
from dataproxy.client import BadRequest, DataProxyClient, Denied, NotFound, SyncDataProxyClient, Unavailable
from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.client.types import Consent, Feedback, KeyLimits, LeaseAck, LeaseRequest, NewKey
from dataproxy.feedback import Desk, give_feedback
from dataproxy.store.keys import OPERATOR, hash_key
from dataproxy.store.schema import access_log, api_key, event, policy_version_state
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import MAC_SECRET, exchange, user, write
from tests.dataproxy.proxy import Proxy


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


@pytest.fixture
def admin(proxy: Proxy, socket_path: Path) -> Iterator[SyncDataProxyClient]:
    with SyncDataProxyClient(socket_path, proxy.files.api_key("admin")) as client:
        yield client


def client(proxy: Proxy, path: Path, role: str, tenant: str = "acme") -> SyncDataProxyClient:
    return SyncDataProxyClient(path, proxy.key(role, tenant))


async def store(proxy: Proxy, *pairs: object) -> None:
    journal = proxy.journal()
    await write(journal, *pairs)  # type: ignore[arg-type]
    journal.close()
    proxy.drain()


def test_health_needs_no_key_and_everything_else_does(socket_path: Path) -> None:
    with SyncDataProxyClient(socket_path, "hr_wrong") as stranger:
        assert stranger.health() == {"status": "ok"}
        with pytest.raises(Denied, match="wrong, revoked or expired") as refused:
            stranger.status()
    assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # httpcore leaves the refused socket to the collector
def test_nobody_listening_is_its_own_error(tmp_path: Path) -> None:
    with SyncDataProxyClient(tmp_path / "no.sock", "hr_x") as lonely, pytest.raises(Unavailable, match="is it running"):
        lonely.health()


def test_a_key_is_shown_once_stored_as_a_hash_and_revoked_at_once(
    proxy: Proxy, admin: SyncDataProxyClient, socket_path: Path
) -> None:
    issued = admin.create_key(NewKey("acme", "triage", "reviewer"))
    assert issued.key.startswith("hr_") and issued.key.encode() not in proxy.everything_at_rest()
    assert hash_key(issued.key) in {row.key_hash for row in proxy.rows(select(api_key))}
    with SyncDataProxyClient(socket_path, issued.key) as reviewer:
        assert [(item.kind, item.a["what"]) for item in reviewer.list_events().events] == [("access", "key made")]
        admin.revoke_key(issued.key_id)
        with pytest.raises(Denied):
            reviewer.list_events()
    with pytest.raises(NotFound):
        admin.revoke_key("key-unknown")


def test_limits_are_set_by_those_whose_key_it_is(proxy: Proxy, admin: SyncDataProxyClient, socket_path: Path) -> None:
    issued = admin.create_key(NewKey("acme", "triage", "agent", limits=KeyLimits(max_concurrency=2)))
    with client(proxy, socket_path, "admin") as own, client(proxy, socket_path, "admin", "other") as foreign:
        assert own.limit_key(issued.key_id, KeyLimits(budget_tokens=7)).limits == KeyLimits(budget_tokens=7)
        with pytest.raises(NotFound):
            foreign.limit_key(issued.key_id, KeyLimits())
        with pytest.raises(BadRequest):
            own.limit_key(issued.key_id, KeyLimits(requests_per_minute=0))
        assert [key.limits for key in own.list_keys() if key.key_id == issued.key_id] == [KeyLimits(budget_tokens=7)]


def test_an_expired_key_is_no_key(proxy: Proxy, admin: SyncDataProxyClient, socket_path: Path) -> None:
    issued = admin.create_key(NewKey("acme", "triage", "reviewer", expires_us=proxy.clock() + 1_000_000))
    with SyncDataProxyClient(socket_path, issued.key) as reviewer:
        reviewer.list_events()
        proxy.clock.advance(1)
        with pytest.raises(Denied):
            reviewer.list_events()


def test_the_key_table_follows_consent(proxy: Proxy, admin: SyncDataProxyClient, socket_path: Path) -> None:
    issued = admin.create_key(NewKey("new", "a1", "agent", models=["tiny"]))
    with SyncDataProxyClient(socket_path, proxy.files.api_key("gateway")) as gateway:

        def row() -> tuple[bool, list[str], bool]:
            (found,) = (row for row in gateway.key_table() if row.key_hash == hash_key(issued.key))
            return found.record, found.models, found.revoked

        assert row() == (False, ["tiny"], False)
        admin.set_consent(Consent("new", recording=True, training=False, reason="signed"))
        assert row() == (True, ["tiny"], False)
        admin.set_consent(Consent("new", recording=False, training=False, reason="withdrawn", agent="a1", key_id="key-of-another"))
        assert row() == (False, ["tiny"], False)
        admin.revoke_key(issued.key_id)
        assert row() == (False, ["tiny"], True)
    assert [(item.tenant, item.reason) for item in admin.list_consent()][1:] == [("new", "signed"), ("new", "withdrawn")]
    assert {item.key_id.rpartition("-")[0] for item in admin.list_consent()[1:]} == {"internal-admin"}


@pytest.mark.parametrize("role", ["agent", "reviewer", "trainer", "gateway"])
def test_each_role_may_do_its_own_and_no_more(proxy: Proxy, socket_path: Path, role: str) -> None:
    calls = {
        "create_key": (lambda c: c.create_key(NewKey("acme", "a", "agent")), set()),
        "limit_key": (lambda c: c.limit_key("key-0", KeyLimits()), set()),
        "consent": (lambda c: c.set_consent(Consent("acme", True, True, "x")), set()),
        "key_table": (lambda c: c.key_table(), {"gateway"}),
        "lease": (lambda c: c.lease(LeaseRequest(1, 60, "v000000", 1, 1)), {"trainer"}),
        "events": (lambda c: c.list_events(), {"agent", "reviewer"}),
        "versions": (lambda c: c.list_versions(), {"reviewer", "trainer", "gateway"}),
    }
    with client(proxy, socket_path, role, OPERATOR if role == "gateway" else "acme") as caller:
        for name, (do, allowed) in calls.items():
            if role in allowed:
                do(caller)
            else:
                with pytest.raises(Denied) as refused:
                    do(caller)
                assert refused.value.status == 403, name


async def test_tenants_cannot_see_reward_or_find_each_others_things(proxy: Proxy, socket_path: Path) -> None:
    pair = exchange([user("private")], prompt=[1], session="s1")
    await store(proxy, pair)
    event_id, trajectory_id = pair[0].event_id, f"tr-{pair[0].event_id}"
    with client(proxy, socket_path, "reviewer") as own, client(proxy, socket_path, "reviewer", "other") as foreign:
        assert own.get_event(event_id).event.o["messages"] == [user("private")]
        assert own.get_trajectory(trajectory_id).eligible and own.get_event(event_id).decisions == {0: "eligible"}
        assert foreign.list_events(session="s1").events == []
        for read in (lambda: foreign.get_event(event_id), lambda: foreign.get_trajectory(trajectory_id)):
            with pytest.raises(NotFound):
                read()
        for target in (pair[0].completion_id, event_id, trajectory_id, "s1"):
            with pytest.raises(NotFound):
                foreign.feedback(Feedback(target, 1.0))


async def test_every_read_is_on_record_before_it_is_answered(proxy: Proxy, socket_path: Path) -> None:
    pair = exchange([user("q")])
    await store(proxy, pair)
    with client(proxy, socket_path, "reviewer") as reviewer:
        reviewer.get_event(pair[0].event_id)
        reviewer.list_events(kind="model_call")
        reads = reviewer.list_events(kind="access").events
    assert [(e.a["what"], e.m["role"]) for e in reads] == [("event", "reviewer"), ("events", "reviewer")]
    assert pair[0].event_id in {row.target for row in proxy.rows(select(access_log))}
    assert proxy.rows(select(event.c.tenant).where(event.c.kind == "access").distinct()) == [("acme",)]


async def test_events_come_in_pages(proxy: Proxy, socket_path: Path) -> None:
    pairs = [exchange([user(f"q{i}")]) for i in range(5)]
    await store(proxy, *pairs)
    with client(proxy, socket_path, "reviewer") as reviewer:
        seen, after = [], None
        while True:
            page = reviewer.list_events(limit=2, after=after, kind="model_call")
            seen += [item.event_id for item in page.events]
            if (after := page.next_after) is None:
                break
    assert seen == [pair[0].event_id for pair in pairs]


async def test_trajectories_come_in_pages_with_what_was_decided(proxy: Proxy, socket_path: Path) -> None:
    pairs = [exchange([user(f"q{i}")], prompt=[1, 2] if i else None) for i in range(3)]
    await store(proxy, *pairs)
    with client(proxy, socket_path, "reviewer") as reviewer:
        rows, after = [], None
        while True:
            page = reviewer.list_trajectories(after=after, limit=2)
            rows += page.rows
            if (after := page.next_after) is None:
                break
        assert [row.trajectory_id for row in rows] == [f"tr-{pair[0].event_id}" for pair in reversed(pairs)]
        decided = {row.trajectory_id: ", ".join(sorted(row.reasons)) for row in rows}
        assert decided == {name: reviewer.get_trajectory(name).reason for name in decided}
        assert len(set(decided.values())) == 2
    async with DataProxyClient(socket_path, proxy.files.api_key("admin")) as admin:
        page = await admin.list_trajectories(TrajectoryQuery(reason="eligible"))
    assert [row.trajectory_id for row in page.rows] == [f"tr-{pair[0].event_id}" for pair in reversed(pairs[1:])]


async def test_the_whole_loop_through_the_async_client(proxy: Proxy, socket_path: Path) -> None:
    pair = exchange([user("q")], prompt=[1, 2])
    agent_key = proxy.key("agent")
    async with DataProxyClient(socket_path, proxy.files.api_key("gateway")) as gateway:
        pending = await gateway.feedback(Feedback(pair[0].completion_id, 0.5), key=agent_key)
        assert pending.status == "pending"
        await store(proxy, pair)
        assert (await gateway.feedback(Feedback(pair[0].completion_id, 1.0), key=agent_key)).status == "stored"
    proxy.clock.advance(3)
    async with DataProxyClient(socket_path, proxy.files.api_key("trainer")) as trainer:
        lease = await trainer.lease(LeaseRequest(4, 60, "v000000", 1, 1))
        ids = [sample.trajectory_id for sample in lease.samples]
        assert len(ids) == 1 and lease.samples[0].sequences[0].ids().tolist() == [1, 2, 7, 8, 9]
        assert (await trainer.renew_lease(lease.lease_id, 90))["deadline_us"] == proxy.clock() + 90_000_000
        manifest = BatchManifest("b1", lease.lease_id, "v000000", "v000001", 1, ids, {ids[0]: 1.0}, 2, {}, {"lr": 0.1})
        await trainer.store_batch(manifest)
        assert await trainer.get_batch("b1") == manifest
        await trainer.ack_lease(lease.lease_id, LeaseAck("trained", "v000001", ids))
    async with DataProxyClient(socket_path, proxy.files.api_key("admin")) as admin:
        status = await admin.status()
        assert (status.events, status.trainable, status.rewards, status.trained, status.leases) == (1, 1, 2, 1, 0)
        assert [(row.version, row.num, row.mean) for row in await admin.reward_stats()] == [("v000000", 1, 1.0)]
        assert (await admin.get_trajectory(ids[0])).trained_by == ["v000001"]


async def test_a_lease_that_waited_for_a_reward_to_be_written_is_of_no_earlier_time_than_that(
    proxy: Proxy, socket_path: Path
) -> None:
    pair = exchange([user("q")], prompt=[1, 2])
    await store(proxy, pair)
    proxy.clock.advance(3)
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    async with DataProxyClient(socket_path, proxy.files.api_key("trainer")) as trainer:
        with proxy.services.database.write() as connection:
            asked = asyncio.ensure_future(trainer.lease(LeaseRequest(4, 60, "v000000", 1, 1)))
            await asyncio.sleep(0.3)  # it waits to be the writer
            proxy.clock.advance(1)
            give_feedback(connection, desk, Feedback(pair[0].completion_id, 1.0), "key-1", proxy.clock())
            proxy.clock.advance(3)
        lease = await asked
    (sample,) = lease.samples
    assert sample.reward == 1.0 and lease.as_of_us == proxy.clock()


async def test_an_operator_rewards_an_answer_that_is_still_on_its_way(proxy: Proxy, socket_path: Path) -> None:
    pair = exchange([user("q")])
    proxy.key("agent")
    async with DataProxyClient(socket_path, proxy.files.api_key("admin")) as admin:
        receipt = await admin.feedback(Feedback(pair[0].completion_id, 1.0))
        assert (receipt.status, receipt.target_id) == ("pending", pair[0].event_id)
        forged = pair[0].completion_id[:-1] + ("0" if pair[0].completion_id[-1] != "0" else "1")
        with pytest.raises(NotFound, match="no such completion"):
            await admin.feedback(Feedback(forged, 1.0))
        await store(proxy, pair)
        assert (await admin.feedback(Feedback(pair[0].completion_id, 1.0))).status == "stored"
        assert (await admin.status()).rewards == 2


def test_a_version_that_serves_retires_the_one_before_and_the_history_stays(proxy: Proxy, socket_path: Path) -> None:
    with SyncDataProxyClient(socket_path, proxy.files.api_key("trainer")) as trainer:
        with pytest.raises(NotFound):
            trainer.serving_version()
        first = PolicyVersion("v000000", None, "serving", 1, "/v/0")
        second = PolicyVersion("v000001", "v000000", "published", 2, "/v/1", metrics={"reward": 0.5})
        for version in (first, second, PolicyVersion("v000001", "v000000", "serving", 2, "/v/1"), first):
            trainer.register_version(version)
        assert trainer.serving_version() == first
        assert [(v.version, v.state) for v in trainer.list_versions()] == [("v000000", "serving"), ("v000001", "retired")]
        with pytest.raises(BadRequest, match="expected a name such as"):
            trainer.register_version(PolicyVersion("latest", None, "serving", 1, "/"))
    history = proxy.rows(
        select(policy_version_state.c.version, policy_version_state.c.state).order_by(policy_version_state.c.position)
    )
    assert history == [
        ("v000000", "serving"),
        ("v000001", "published"),
        ("v000000", "retired"),
        ("v000001", "serving"),
        ("v000001", "retired"),
        ("v000000", "serving"),
    ]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"target": 5}', b'{"value": 1}'])
def test_bad_bodies_are_400_in_openais_form(proxy: Proxy, socket_path: Path, body: bytes) -> None:
    headers = {"authorization": f"Bearer {proxy.key('agent')}"}
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket_path)), base_url="http://x", headers=headers, timeout=60
    ) as http:
        answer = http.post("/v1/feedback", content=body)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_request"


def test_an_internal_key_that_was_replaced_stops_working(proxy: Proxy, tmp_path: Path) -> None:
    old = proxy.files.api_key("trainer")
    (proxy.files.directory / "trainer.key").write_text("hr_another")
    proxy.restart()
    with serve(proxy.services, tmp_path / "again.sock") as path:
        with SyncDataProxyClient(path, old) as before, pytest.raises(Denied):
            before.list_versions()
        with SyncDataProxyClient(path, "hr_another") as after:
            assert after.list_versions() == []
