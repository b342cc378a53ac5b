"""Contents of every kind: parts, images, kinds that nobody knows yet, roles side by side. All reach the engine and the store."""

import json
from typing import Any

import pytest

from tests.cases.drained import drain, read
from tests.cases.edge import Edge
from tests.cases.speech import CHAT, MESSAGES, RESPONSES, Speech, each
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URL = f"data:image/png;base64,{PIXEL}"
FUTURE = {"type": "hologram", "depth": 3, "frames": [{"at": 0.25, "of": None}]}
BASE64 = {"type": "base64", "media_type": "image/png", "data": PIXEL}
PARTS: dict[str, list[dict[str, Any]]] = {
    "chat": [{"type": "text", "text": "look: "}, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}, FUTURE],
    "responses": [{"type": "input_text", "text": "look: "}, {"type": "input_image", "image_url": URL}, FUTURE],
    "messages": [{"type": "text", "text": "look: "}, {"type": "image", "source": BASE64}, FUTURE],
}


def with_parts(speech: Speech) -> dict[str, Any]:
    """A request whose only message has text, an image and a part of an unknown kind."""
    messages = [{"role": "user", "content": PARTS[speech.name]}]
    return {**speech.ask(), ("input" if speech is RESPONSES else "messages"): messages}


@pytest.mark.parametrize("speech", [CHAT, RESPONSES, MESSAGES], ids=lambda speech: speech.name)
async def test_parts_images_and_unknown_kinds_are_passed_on_and_kept(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech
) -> None:
    engine.model.reply = lambda body: "seen"
    raw = json.dumps(with_parts(speech)).encode()
    wire = await edge.open()
    wire.ask(speech.path, raw)
    head, _ = await wire.answer()
    assert "x-headrace-error" not in head.headers  # the engine may refuse the unknown kind; the gateway does not
    assert engine.calls[0].body == raw
    await drain(edge, proxy, [head.event_id])
    (message,) = read(proxy, head.event_id).o["messages"]
    text, image, future = message["content"]
    assert text["text"] == "look: " and future == FUTURE
    assert image["type"].endswith(("image", "image_url")) and PIXEL not in json.dumps(image)
    assert PIXEL.encode() not in proxy.everything_at_rest()


ROLES = [
    {"role": "system", "content": "You are brief."},
    {"role": "developer", "content": "Answer in French."},
    {"role": "user", "content": "hello"},
    {"role": "system", "content": "It is late."},
    {"role": "user", "content": "again"},
]


@pytest.mark.parametrize("speech", [CHAT, RESPONSES], ids=lambda speech: speech.name)
async def test_system_and_developer_stand_side_by_side_in_order(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech
) -> None:
    body = {**speech.ask(), ("input" if speech is RESPONSES else "messages"): ROLES}
    wire = await edge.open()
    wire.ask(speech.path, body)
    head, _ = await wire.answer()
    assert head.status == 200 and json.loads(engine.calls[0].body) == body
    await drain(edge, proxy, [head.event_id])
    kept = read(proxy, head.event_id).o["messages"]
    assert [(one["role"], one["content"]) for one in kept] == [(one["role"], one["content"]) for one in ROLES]


@each
async def test_a_character_of_many_bytes_is_whole_wherever_tokens_and_chunks_cut_it(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech
) -> None:
    text = "naïve 你好 🎉🏳️‍🌈 ﷽ Ünïcödé"  # a token of this engine is a byte
    engine.model.reply = lambda body: text
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    head, body = await wire.answer()
    assert "\ufffd" not in body.decode()
    await drain(edge, proxy, [head.event_id])
    assert read(proxy, head.event_id).a["messages"][0]["content"] == text
