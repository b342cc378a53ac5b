"""Two tenants and 200 attempts of one to reach the other: every answer is the one for a name that was never given to anything."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select

from atdp.ids import new_event_id
from dataproxy.api import app as app_module
from dataproxy.store.schema import trajectory
from tests.dataproxy.api.served import serve
from tests.dataproxy.isolation.attempts import DATA_PROXY, NAME, Attempt
from tests.dataproxy.isolation.tenants import CANARY, OURS, THEIRS, draws, everything_of, ghost, put, settle
from tests.dataproxy.proxy import Proxy

pytestmark = pytest.mark.slow
NUM_ATTEMPTS = 200
SEED = 4
_OWN_IDS = re.compile(rb"(rw-|key-|lease-|hr_)[0-9A-Za-z_-]{16,}|[0-9a-f]{32}")
_OPEN = {("GET", "/health")}
_FOUND_BY_THEIR_OWNER = ("/v1/events/{event_id}", "/v1/trajectories/{trajectory_id}", "/v1/batches/{batch_id}")


@pytest.fixture
def http(proxy: Proxy, tmp_path: Path) -> Iterator[httpx.Client]:
    with (
        serve(proxy.services, tmp_path / "api.sock") as path,
        httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=60) as client,
    ):
        yield client


def ask(http: httpx.Client, key: str, attempt: Attempt, **names: str) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Status, body and headers, with the names that were asked for, and ids made for the answer, taken out."""
    headers = {"authorization": f"Bearer {key}"} | put(attempt.headers, **names)
    path, body = put(attempt.path, **names), put(attempt.body, **names)
    answer = http.request(attempt.method, path, json=body, headers=headers)
    text = answer.content.replace(names["name"].encode(), b"NAME")
    kept = [(name, value) for name, value in answer.headers.items() if name not in ("date", "content-length")]
    return answer.status_code, _OWN_IDS.sub(b"ID", text), kept


async def test_no_attempt_tells_a_foreign_name_from_one_that_was_never_given(proxy: Proxy, http: httpx.Client) -> None:
    names = await settle(proxy)
    keys = {role: proxy.key(role, OURS, "triage") for role in ("reviewer", "agent", "trainer", "admin", "gateway")}
    own = proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.tenant == OURS))[0][0]
    their_keys = {role: proxy.key(role, THEIRS, f"{CANARY}-agent") for role in keys}
    for attempt in (attempt for attempt in DATA_PROXY if attempt.route in _FOUND_BY_THEIR_OWNER):
        status, text, _ = ask(http, their_keys[attempt.role], attempt, name=names[attempt.kinds[0]][0])
        assert status == 200 and len(text) > 100, (attempt, text)  # what follows would find it
    before = everything_of(proxy, THEIRS)
    for draw, attempt, kind in draws(SEED, DATA_PROXY, NUM_ATTEMPTS):
        foreign = draw.choice(names[kind]) if kind else CANARY
        answers = [
            ask(http, keys[attempt.role], attempt, name=name, own=own, fresh=new_event_id()) for name in (foreign, ghost(foreign))
        ]
        assert not kind or answers[0] == answers[1], f"{attempt} with {kind} {foreign}"
        assert CANARY.encode() not in answers[0][1] and THEIRS.encode() not in answers[0][1], attempt
    after = everything_of(proxy, THEIRS)
    assert {name for name in before if before[name] != after[name]} == set()


def test_every_route_of_the_data_proxy_is_attempted(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(app_module.FastAPI, "include_router", lambda self, router: made.extend(router.routes))
    monkeypatch.setattr(app_module, "create_console", lambda _: app_module.FastAPI())  # pages over the same, behind a sitting
    app = app_module.create_app(None)  # type: ignore[arg-type]
    routes = [route for route in (*app.routes, *made) if isinstance(route, APIRoute)]
    served = {(method, route.path) for route in routes for method in route.methods}
    attempted = {(attempt.method, attempt.route or attempt.path) for attempt in DATA_PROXY}
    assert served - _OPEN == attempted
    assert all(NAME in str((attempt.path, attempt.body, attempt.headers)) for attempt in DATA_PROXY if attempt.kinds)
