"""Reads on record: each route of the API leaves one before its answer begins, or is named, with why it leaves none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select

from atdp.samples import Lease
from atdp.versions import PolicyVersion
from dataproxy.api import app as app_module
from dataproxy.api.on_record import UNRECORDED
from dataproxy.client.types import LeaseRequest
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import access_log, event, lease, log_leaf
from dataproxy.store.versions import register_version
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.isolation.attempts import DATA_PROXY, EVENT, Attempt
from tests.dataproxy.isolation.tenants import CANARY, OURS, THEIRS, put, settle
from tests.dataproxy.proxy import BROKEN_WORD, Proxy

READS = {
    "/v1/agents": "agents",
    "/v1/audit/export": "evidence",
    "/v1/audit/log": "access_log",
    "/v1/audit/search": "search",
    "/v1/audit/verify": "audit",
    "/v1/batches/{batch_id}": "batch",
    "/v1/batches/{batch_id}/rebuilt": "batch",
    "/v1/consent": "consents",
    "/v1/events": "events",
    "/v1/events/{event_id}": "event",
    "/v1/export/events": "export of events",
    "/v1/export/trajectories": "export of trajectories",
    "/v1/feedback/dead": "dead letters",
    "/v1/holds": "holds",
    "/v1/keys": "keys",
    "/v1/quarantine": "quarantine",
    "/v1/quarantine/{event_id}": "quarantine",
    "/v1/recording": "recording",
    "/v1/redaction": "redaction",
    "/v1/retention": "retention",
    "/v1/review": "review",
    "/v1/tenants": "tenants",
    "/v1/tenants/{tenant}/export": "tenant export",
    "/v1/trajectories": "trajectories",
    "/v1/trajectories/{trajectory_id}": "trajectory",
    "/v1/vault/approvals": "approvals",
    "/v1/views": "views",
}
"""What a GET of each is on record as; every other route's handler says why it is not."""

ALSO_READ = {
    ("POST", "/v1/erasure"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/quarantine/retry"),
    ("POST", "/v1/review/{event_id}"),
}
"""Not GET, and yet answered with what is stored: each has a test of its own, here or beside what it does."""
RECEIPTS = {
    ("POST", "/v1/audit/witness"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/events"),
    ("POST", "/v1/feedback"),
    ("POST", "/v1/feedback/dead/{letter_id}/retry"),
    ("POST", "/v1/gaps"),
    ("POST", "/v1/leases/{lease_id}/ack"),
    ("POST", "/v1/leases/{lease_id}/renew"),
    ("POST", "/v1/pseudonyms"),
    ("POST", "/v1/redaction/test"),
    ("POST", "/v1/tenants/import"),
    ("POST", "/v1/traces"),
    ("POST", "/v1/versions"),
}
"""Something is sent, and the answer says what became of it."""
DEEDS = {
    ("DELETE", "/v1/keys/{key_id}"),
    ("DELETE", "/v1/views/{view_id}"),
    ("POST", "/v1/agents"),
    ("POST", "/v1/consent"),
    ("POST", "/v1/holds"),
    ("POST", "/v1/holds/{hold_id}/release"),
    ("POST", "/v1/keys"),
    ("POST", "/v1/recording"),
    ("POST", "/v1/retention"),
    ("POST", "/v1/vault/approvals"),
    ("POST", "/v1/vault/approvals/{approval_id}/{action}"),
    ("POST", "/v1/version-orders"),
    ("POST", "/v1/version-orders/{order_id}/{step}"),
    ("POST", "/v1/views"),
    ("PUT", "/v1/keys/{key_id}/limits"),
    ("PUT", "/v1/redaction"),
}
"""Somebody changes who is governed how: what was done is a leaf of its own."""
OPERATORS = {"/v1/keys/table", "/v1/version-orders"}


def routes() -> dict[tuple[str, str], APIRoute]:
    """Every route of the API that takes a key, by method and path."""
    routers = [module.router for module in vars(app_module).values() if hasattr(module, "router")]
    found = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return {(method, route.path): route for route in found for method in route.methods}


def unrecorded() -> dict[str, str]:
    """The path of each GET that leaves no read, and why."""
    handlers = {path: route.endpoint for (method, path), route in routes().items() if method == "GET"}
    return {path: UNRECORDED[handler] for path, handler in handlers.items() if handler in UNRECORDED}


@contextmanager
def no_reads_kept(proxy: Proxy) -> Iterator[None]:
    """The store takes no row of the log of reads until the block ends."""
    with proxy.services.database.write() as connection:
        refuse = "BEGIN SELECT RAISE(ABORT, 'no reads are kept'); END"
        connection.exec_driver_sql(f"CREATE TRIGGER no_reads BEFORE INSERT ON access_log {refuse}")
    try:
        yield
    finally:
        with proxy.services.database.write() as connection:
            connection.exec_driver_sql("DROP TRIGGER no_reads")


def reads(proxy: Proxy, tenant: str) -> list[tuple[str, str, str]]:
    """(what, of what, why) of each read in the log of ``tenant``, oldest first: those that have their leaf."""
    same = (log_leaf.c.tenant == access_log.c.tenant) & (log_leaf.c.row_key == access_log.c.event_id)
    columns = (access_log.c.what, access_log.c.target, access_log.c.purpose)
    query = select(*columns).join(log_leaf, same & (log_leaf.c.kind == "access_log")).order_by(log_leaf.c.leaf_index)
    return [tuple(row) for row in proxy.rows(query.where(access_log.c.tenant == tenant))]


@pytest.fixture
def http(proxy: Proxy, tmp_path: Path) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(tmp_path / "api.sock"))
    headers = {"x-headrace-purpose": "a%20look", "connection": "close"}  # a failed answer closes its connection
    with (
        serve(proxy.services, tmp_path / "api.sock"),
        httpx.Client(transport=transport, base_url="http://x", timeout=60, headers=headers) as client,
    ):
        yield client


def held(key: str) -> dict[str, str]:
    """The header of a key."""
    return {"authorization": f"Bearer {key}"}


def send(http: httpx.Client, key: str, path: str, body: object) -> httpx.Response:
    """What is answered to ``body`` as JSON."""
    return http.post(path, content=msgspec.json.encode(body), headers=held(key))


def test_every_route_is_a_read_on_record_or_says_why_it_is_none() -> None:
    gets = {path for method, path in routes() if method == "GET"}
    assert gets == READS.keys() | unrecorded().keys() and not READS.keys() & unrecorded().keys()
    assert {route for route in routes() if route[0] != "GET"} == ALSO_READ | RECEIPTS | DEEDS


def test_the_documents_name_every_route_that_leaves_no_read() -> None:
    said = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    assert [f"| `{path}` | {why} |" for path, why in unrecorded().items() if f"| `{path}` | {why} |" not in said] == []


async def test_each_read_leaves_one_leaf_and_no_answer_begins_without_it(proxy: Proxy, http: httpx.Client) -> None:
    names = await settle(proxy)
    names["quarantined"] = [await _quarantine(proxy)]
    with proxy.services.database.write() as connection:
        register_version(connection, PolicyVersion("v000000", None, "serving", 1, "/x"), "key-t", proxy.clock())
    keys = {role: proxy.key(role, THEIRS, f"{CANARY}-agent") for role in ("reviewer", "agent", "trainer", "admin")}
    operator = proxy.key("admin", OPERATOR)
    gets = {attempt.route or attempt.path: attempt for attempt in reversed(DATA_PROXY) if attempt.method == "GET"}

    def ask(path: str, attempt: Attempt) -> httpx.Response:
        kind = "quarantined" if path == "/v1/quarantine/{event_id}" else next(iter(attempt.kinds), EVENT)
        key = operator if path in OPERATORS else keys.get(attempt.role, operator)
        return http.get(put(attempt.path, name=names[kind][0]), headers=held(key))

    with no_reads_kept(proxy):
        for path, attempt in gets.items():
            answer = ask(path, attempt)
            assert answer.status_code == (500 if path in READS else 200), path
            assert path not in READS or (CANARY not in answer.text and len(answer.content) < 100), path
    for path, attempt in gets.items():
        before = len(reads(proxy, THEIRS)) + len(reads(proxy, OPERATOR))
        assert ask(path, attempt).status_code == 200, path
        found = [what for what, _, _ in reads(proxy, THEIRS) + reads(proxy, OPERATOR)]
        assert len(found) - before == (path in READS), path
        assert path not in READS or READS[path] in found, path
    assert {what for what, _, why in reads(proxy, THEIRS) if why == "a look"} == set(READS.values())


async def _quarantine(proxy: Proxy) -> str:
    """Something of THEIRS that cannot be governed."""
    journal, (asked, answered) = proxy.journal(), exchange([user(f"{CANARY} {BROKEN_WORD}")], tenant=THEIRS)
    await write(journal, (asked, answered))
    journal.close()
    proxy.drain()
    return asked.event_id


def test_an_operators_look_at_a_list_is_in_the_log_of_each_tenant_on_it(proxy: Proxy, http: httpx.Client) -> None:
    for tenant in (THEIRS, "third"):
        proxy.consent(tenant)
    before = {tenant: len(reads(proxy, tenant)) for tenant in (OURS, THEIRS, "third", OPERATOR)}
    assert http.get("/v1/consent", headers=held(proxy.files.api_key("admin"))).status_code == 200
    for tenant in (OURS, THEIRS, "third"):
        assert reads(proxy, tenant)[before[tenant] :] == [("consents", "", "a look")]
    assert len(reads(proxy, OPERATOR)) == before[OPERATOR]


async def test_what_is_lent_or_shown_to_a_trainer_is_a_leaf_in_each_owners_log(proxy: Proxy, http: httpx.Client) -> None:
    await settle(proxy)  # two of four trajectories of each are lent then
    key = proxy.key("trainer", OPERATOR)
    wanted = LeaseRequest(8, 60, "v000000", 9, 9)
    with no_reads_kept(proxy):
        num_leases = proxy.count(lease)
        refused = send(http, key, "/v1/leases", wanted)
        assert refused.status_code == 500 and CANARY not in refused.text and proxy.count(lease) == num_leases
    preview = msgspec.structs.replace(wanted, preview=True)
    assert send(http, key, "/v1/leases", preview).status_code == 200
    lent = msgspec.msgpack.decode(send(http, key, "/v1/leases", wanted).content, type=Lease)
    assert sorted(sample.tenant for sample in lent.samples) == [OURS, OURS, THEIRS, THEIRS]
    why = "training, 2 trajectories"
    for tenant in (OURS, THEIRS):
        assert reads(proxy, tenant)[-2:] == [("lease", "preview", why), ("lease", lent.lease_id, why)]
    before = len(reads(proxy, OURS))
    nothing = msgspec.msgpack.decode(send(http, key, "/v1/leases", wanted).content, type=Lease)
    assert nothing.samples == [] and len(reads(proxy, OURS)) == before, "a trainer asks every second"


async def test_a_person_is_looked_up_on_record_by_a_pseudonym_alone(proxy: Proxy, http: httpx.Client) -> None:
    journal = proxy.journal()
    await write(journal, exchange([user("I lost it")], session="ann-1", user="Ann from next door"))
    journal.close()
    proxy.drain()
    key = proxy.key("admin")
    wanted = {"tenant": OURS, "scope": "subject", "target": "Ann from next door", "reason": "asked to", "dry_run": True}
    with no_reads_kept(proxy):
        refused = send(http, key, "/v1/erasure", wanted)
        assert refused.status_code == 500 and b"ann-1" not in refused.content
    assert send(http, key, "/v1/erasure", wanted).json()["events"] == 1
    pseudonym = proxy.rows(select(event.c.subject).where(event.c.kind == "model_call"))[0][0]
    assert pseudonym and reads(proxy, OURS)[-1] == ("erasure preview", f"subject:{pseudonym}", "a look")
    assert "Ann from" not in str(proxy.rows(select(access_log)))


def test_a_view_is_kept_and_taken_away_on_record_and_so_are_an_agents_rules(proxy: Proxy, http: httpx.Client) -> None:
    key = proxy.key("admin")
    view_id = http.post("/v1/views", json={"title": "mine", "query": {}}, headers=held(key)).json()["view_id"]
    assert http.delete(f"/v1/views/{view_id}", headers=held(key)).status_code == 200
    assert http.delete(f"/v1/views/{view_id}", headers=held(key)).status_code == 404
    assert http.post("/v1/agents", json={"tenant": OURS, "agent": "triage", "settle_s": 1}, headers=held(key)).status_code == 200
    assert [read[:2] for read in reads(proxy, OURS)] == [("view kept", view_id), ("view removed", view_id), ("rules set", "triage")]
