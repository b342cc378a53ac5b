"""Keys and tenants: unknown and revoked keys are 401; another tenant's session, answer or id is as if it had never been."""

import json
import re

import pytest

from tests.cases.edge import Edge
from tests.cases.speech import CHAT, RESPONSES, Speech, each
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@each
@pytest.mark.parametrize("key", ["hr_unknown", "hr_revoked", "", "hr_acm", "hr_acme2", "HR_ACME", "hr_acmé"])
async def test_an_unknown_revoked_or_missing_key_is_401(edge: Edge, engine: FakeEngine, speech: Speech, key: str) -> None:
    wire = await edge.open()
    for stream in (False, True):
        wire.ask(speech.path, speech.ask(stream=stream), key=key)
        head, body = await wire.answer()
        assert head.status == 401
        speech.check_error(head.status, head.headers, body)
    wire.ask(speech.path, speech.ask(), key="", x_api_key=key or "hr_revoked")
    assert (await wire.answer())[0].status == 401
    assert engine.calls == []


async def test_a_revoked_and_an_unknown_key_are_answered_alike(edge: Edge, engine: FakeEngine) -> None:
    seen = []
    for key in ("hr_revoked", "hr_never_was"):
        wire = await edge.open()
        wire.ask(CHAT.path, CHAT.ask(), key=key)
        head, body = await wire.answer()
        seen.append((head.status, body, {name for name in head.headers}))
    assert seen[0] == seen[1]


@each
async def test_one_session_name_in_two_tenants_is_two_sessions(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    halves = []
    for key in ("hr_acme", "hr_other"):
        wire = await edge.open()
        wire.ask(speech.path, speech.ask(), key=key, x_session_id="shared-name")
        head, _ = await wire.answer()
        assert (head.status, head.headers["x-headrace-session"]) == (200, "shared-name")
        halves.append((await edge.exchange(head.event_id))[0])
    mine, theirs = halves
    assert (mine.tenant, theirs.tenant) == ("acme", "other") and mine.session_id == theirs.session_id
    assert mine.affinity != theirs.affinity
    salts = [call.headers["x-headrace-cache-salt"] for call in engine.calls]
    assert len(set(salts)) == 2


async def test_another_tenants_stored_answer_cannot_be_told_from_one_that_never_was(edge: Edge, engine: FakeEngine) -> None:
    wire = await edge.open()
    wire.ask(RESPONSES.path, RESPONSES.ask("a secret"))
    _, body = await wire.answer()
    stored = json.loads(body)["id"]
    wire.ask(f"{RESPONSES.path}/{stored}", method="GET")
    head, body = await wire.answer()
    assert head.status == 200 and b"a secret" in body
    forged = stored[:-1] + ("0" if stored[-1] != "0" else "1")
    ways = [
        lambda one: (f"{RESPONSES.path}/{one}", b"", "GET"),
        lambda one: (f"{RESPONSES.path}/{one}/cancel", b"", "POST"),
        lambda one: (RESPONSES.path, RESPONSES.ask(previous_response_id=one), "POST"),
    ]
    for way in ways:
        seen = []
        for one in (stored, forged, "resp_" + "0" * 48, "resp_x"):
            path, body, method = way(one)
            before = len(engine.calls)
            wire.ask(path, body, key="hr_other", method=method)
            head, answer = await wire.answer()
            names = {name for name in head.headers if name != "date"}
            seen.append((head.status, answer.replace(one.encode(), b"ID"), names))
            assert head.status == 404 and b"secret" not in answer and len(engine.calls) == before
        assert all(one == seen[0] for one in seen)


async def test_the_error_for_a_stored_answer_is_in_openais_form(edge: Edge, engine: FakeEngine) -> None:
    wire = await edge.open()
    wire.ask(f"{RESPONSES.path}/resp_nothing", method="GET")
    head, body = await wire.answer()
    assert head.status == 404
    RESPONSES.check_error(head.status, head.headers, body)
    assert re.search(rb"resp_nothing", body)
