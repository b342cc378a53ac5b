"""The reviewer's side of the API: one tenant's reviewer sees that tenant alone, every read is a leaf, and purposes are redacted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dataproxy.client import BadRequest, Denied, NotFound, ReviewClient
from dataproxy.client.review_types import AuditReport, ErasureRequest, LegalHold, Retention, SearchRequest
from dataproxy.store.schema import access_log, log_leaf
from tests.dataproxy.api.served import serve
from tests.dataproxy.ledger.lived_in import live
from tests.dataproxy.proxy import SECRET_WORD, Clock, Proxy


@pytest.fixture
async def socket_path(proxy: Proxy, clock: Clock, tmp_path: Path) -> Any:
    await live(proxy, clock)
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


@pytest.fixture
def reviewer(proxy: Proxy, socket_path: Path) -> Iterator[ReviewClient]:
    with ReviewClient(socket_path, proxy.key("reviewer"), purpose=f"über {SECRET_WORD}") as client:
        yield client


def test_a_reviewer_finds_and_verifies_its_own_tenant_alone(reviewer: ReviewClient, tmp_path: Path) -> None:
    found = reviewer.search(SearchRequest("hello from"))
    assert {event.tenant for event in found.events} == {"acme"} and len(found.events) == 2
    assert {row.tenant for row in reviewer.access_log().rows} == {"acme"}
    *_, report = reviewer.audit()
    assert isinstance(report, AuditReport) and report.ok and report.tenants == 1
    for which in ({"tenant": "other"}, {"tenant": "nobody"}, {"session": "named-other"}):
        with pytest.raises(NotFound):
            reviewer.save_evidence(tmp_path / "e.zip", **which)
    assert not (tmp_path / "e.zip").exists()


def test_every_read_is_a_leaf_with_its_purpose_redacted(reviewer: ReviewClient, proxy: Proxy, tmp_path: Path) -> None:
    reviewer.search(SearchRequest(SECRET_WORD))
    reviewer.save_evidence(tmp_path / "e.zip")
    list(reviewer.audit())
    reviewer.access_log()
    rows = {row.what: row for row in proxy.rows(select(access_log).where(access_log.c.tenant == "acme"))}
    assert rows.keys() >= {"search", "evidence", "audit", "access_log"}
    assert {rows[what].purpose for what in ("search", "evidence", "audit", "access_log")} == {"über <PASSWORD_1>"}
    assert rows["search"].target == "<PASSWORD_1>"
    leaves = {row.row_key for row in proxy.rows(select(log_leaf.c.row_key).where(log_leaf.c.kind == "access_log"))}
    assert {row.event_id for row in rows.values()} <= leaves
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()


def test_search_narrows_pages_and_goes_on(reviewer: ReviewClient) -> None:
    first = reviewer.search(SearchRequest(kind="model_call", limit=2))
    assert len(first.events) == 2 and first.next_after is not None
    rest = reviewer.search(SearchRequest(kind="model_call", limit=2, after=first.next_after))
    assert len(rest.events) == 1 and rest.next_after is None
    assert len(reviewer.search(SearchRequest(session="named-acme", kind="model_call")).events) == 1
    assert reviewer.search(SearchRequest(agent="nobody")).events == []
    assert reviewer.search(SearchRequest(since_us=1_000_001, kind="model_call")).events == []


CHANGES: dict[str, Callable[[ReviewClient], object]] = {
    "erase": lambda c: c.erase(ErasureRequest("acme", "session", "named-acme", "x")),
    "retention": lambda c: c.set_retention(Retention("acme", "short", 3, "x")),
    "release": lambda c: c.release_hold("hold-1", "x"),
}


def test_only_an_admin_erases_and_says_how_long(proxy: Proxy, socket_path: Path) -> None:
    for role in ("reviewer", "agent", "trainer", "gateway"):
        with ReviewClient(socket_path, proxy.key(role)) as client:
            for change in CHANGES.values():
                with pytest.raises(Denied, match="may not do this"):
                    change(client)


def test_a_tenants_admin_reaches_no_other_tenant(proxy: Proxy, socket_path: Path) -> None:
    with ReviewClient(socket_path, proxy.key("admin")) as client:
        for change in (
            lambda: client.erase(ErasureRequest("other", "session", "named-other", "x")),
            lambda: client.erase(ErasureRequest("acme", "session", "named-other", "x")),
            lambda: client.add_hold(LegalHold("other", "tenant", "", "x")),
            lambda: client.set_retention(Retention("other", "short", 3, "x")),
        ):
            with pytest.raises(NotFound):
                change()
        assert client.list_holds() == [] and client.list_retention() == []


@pytest.mark.slow
def test_what_is_missing_is_said(proxy: Proxy, socket_path: Path) -> None:
    with ReviewClient(socket_path, proxy.files.api_key("admin")) as operator:
        with pytest.raises(BadRequest, match="needs a `reason`"):
            operator.erase(ErasureRequest("acme", "session", "named-acme", ""))
        with pytest.raises(BadRequest, match="say one of"):
            operator.erase(ErasureRequest("acme", "person", "ann", "x"))
        with pytest.raises(BadRequest, match="needs a `reason`, a `scope`"):
            operator.add_hold(LegalHold("acme", "planet", "mars", "x"))
        with pytest.raises(BadRequest, match="say whose"):
            operator.save_evidence(Path("never.zip"))
