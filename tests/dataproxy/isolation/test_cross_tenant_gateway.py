"""200 attempts at the gateway, before a real data proxy: sessions, stored answers, feedback, events, workers."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from atdp.ids import new_event_id
from dataproxy.store.schema import event
from gateway.app import App, create_gateway
from gateway.openapi import document
from gateway.polling import KeyPoller, WorkerPoller
from gateway.settings import Settings
from tests.dataproxy.api.served import serve as serve_data_proxy
from tests.dataproxy.isolation.attempts import COMPLETION, GATEWAY, RESPONSE, SESSION, Attempt
from tests.dataproxy.isolation.tenants import CANARY, OURS, THEIRS, draws, everything_of, ghost, put, settle
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve

pytestmark = pytest.mark.slow
NUM_ATTEMPTS = 200
SEED = 5
_MADE = re.compile(r"[0-9a-f]{16,}|\"created(_at)?\": ?[0-9.]+|(rw|call|fc|rs|msg)[-_][0-9A-Za-z]+")
_OF_THE_CALL = ("date", "content-length", "x-headrace-event")


@pytest.fixture
async def running(proxy: Proxy) -> AsyncIterator[tuple[str, KeyPoller]]:
    """A gateway on a real socket, the data proxy behind it and a fake engine beside: its URL, and what makes it poll keys."""
    run = proxy.data_dir / "run"
    run.mkdir(parents=True)
    async with AsyncExitStack() as stack:
        stack.enter_context(serve_data_proxy(proxy.services, run / "dataproxy.sock"))
        engine_url = await stack.enter_async_context(FakeEngine().serve())
        config: Path = proxy.files.directory
        gateway = create_gateway(Settings(data_dir=proxy.data_dir, config_dir=config, engine_urls=(engine_url,)), proxy.journal())
        app = App(gateway)
        served = await stack.enter_async_context(serve(app, http=app.http_protocol))
        await WorkerPoller(gateway)()
        yield served, KeyPoller(gateway)


async def ask(http: httpx.AsyncClient, key: str, attempt: Attempt, **names: str) -> tuple[int, str, list[tuple[str, str]]]:
    """Status, body and headers, without the name that was asked for and without what every call has anew."""
    headers = {"authorization": f"Bearer {key}"} | put(attempt.headers, **names)
    answer = await http.request(attempt.method, put(attempt.path, **names), json=put(attempt.body, **names), headers=headers)
    kept = [(name, value.replace(names["name"], "NAME")) for name, value in answer.headers.items() if name not in _OF_THE_CALL]
    return answer.status_code, _MADE.sub("MADE", answer.text.replace(names["name"], "NAME")), kept


async def test_no_attempt_at_the_gateway_tells_a_foreign_name_from_one_that_was_never_given(
    proxy: Proxy, running: tuple[str, KeyPoller]
) -> None:
    url, poll = running
    names = await settle(proxy)
    keys = {role: proxy.key(role, OURS, "triage") for role in ("reviewer", "agent", "admin")}
    theirs = proxy.key("agent", THEIRS, f"{CANARY}-agent")
    await poll()
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        names |= await _talk(http, theirs)
        while proxy.drain():
            pass
        before = everything_of(proxy, THEIRS)
        for attempt in (attempt for attempt in GATEWAY if attempt.kinds == (RESPONSE, COMPLETION) and attempt.method == "GET"):
            assert (await ask(http, theirs, attempt, name=names[RESPONSE][0]))[0] == 200  # what follows would find it
        for draw, attempt, kind in draws(SEED, GATEWAY, NUM_ATTEMPTS):
            foreign = draw.choice(names[kind]) if kind else CANARY
            nobodys = ghost(foreign)
            answers = [await ask(http, keys[attempt.role], attempt, name=name, fresh=new_event_id()) for name in (foreign, nobodys)]
            assert not kind or answers[0] == answers[1], f"{attempt} with {kind} {foreign}"
            assert CANARY not in answers[0][1] and f'"{THEIRS}"' not in answers[0][1], attempt
    proxy.drain()
    after = everything_of(proxy, THEIRS)
    assert {name for name in before if before[name] != after[name]} == set()
    assert proxy.rows(select(event.c.event_id).where(event.c.tenant == OURS, event.c.session_id.in_(names[SESSION]))) != []


async def _talk(http: httpx.AsyncClient, key: str) -> dict[str, list[str]]:
    """THEIRS calls through the gateway; gives the ids of the answers that are stored for them, and those of all."""
    headers, responses, completions = {"authorization": f"Bearer {key}"}, [], []
    for number in range(4):
        session = headers | {"x-headrace-session": f"{CANARY}-session-{number}"}
        made = await http.post("/v1/responses", json={"model": "tiny", "input": f"{CANARY} {number}"}, headers=session)
        said = {"model": "tiny", "messages": [{"role": "user", "content": f"{CANARY} {number}"}]}
        chat = await http.post("/v1/chat/completions", json=said, headers=session)
        responses.append(made.json()["id"])
        completions.append(chat.json()["id"])
    return {RESPONSE: responses, COMPLETION: completions}


def test_every_route_of_the_gateway_is_attempted() -> None:
    served = {(method.upper(), path) for path, methods in document("x")["paths"].items() for method in methods}
    assert served == {(attempt.method, attempt.route or attempt.path) for attempt in GATEWAY}
