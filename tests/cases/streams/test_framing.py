"""Framing: comments, names, CRLF and any chunk boundary pass as they came; only the record is taken out, in every dialect."""

import asyncio

import pytest

from tests.cases.edge import Edge
from tests.cases.speech import CHAT, MESSAGES, Speech, each
from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST = b": hello\n\n"
ODD = (
    b": a comment\n\n"
    b"event: other\nid: 7\nretry: 10\ndata: 1\n\n"
    b"data: two\ndata: lines\n\n"
    b'data: {"a":"event: headrace.record\\n\\ndata: [DONE] \xc3\xa9\xf0\x9f\x99\x82"}\n\n'
    b"data:no space\n\n\n"
)
RECORD = b'{"v":1,"rid":"r","choices":[]}'
RECORD_EVENT = b"event: headrace.record\ndata: " + RECORD + b"\n\n"
LAST = b'data: {"the":"last"}\n\n'


def whole_events(raw: bytes) -> bytes:
    """The part of ``raw`` that ends with an event."""
    return raw[: raw.rfind(b"\n\n") + 2]


@each
async def test_a_boundary_between_chunks_at_any_byte_changes_nothing(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    stream = ODD + RECORD_EVENT + LAST + speech.end
    first = 1 if speech in (CHAT, MESSAGES) else len(ODD) - 4  # before that the dialects do not differ
    wire, events = await edge.open(), []
    for cut in range(first, len(stream)):
        gate = asyncio.Event()
        engine.script = Script([FIRST + stream[:cut], gate, stream[cut:]])
        wire.ask(speech.path, speech.ask(stream=True))
        events.append((await wire.head()).event_id)
        await wire.until(FIRST + whole_events(stream[: min(cut, len(ODD))]))
        gate.set()
        assert await wire.rest() == FIRST + ODD + LAST + speech.end, f"cut at {cut}"
    await edge.exchange(events[-1])
    halves = edge.halves()
    assert {(halves[one][1].body, halves[one][1].record) for one in events} == {(FIRST + ODD + LAST + speech.end, RECORD)}


@each
async def test_a_stream_that_comes_byte_by_byte_is_the_same(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    stream = FIRST + ODD + RECORD_EVENT + LAST + speech.end
    engine.script = Script([stream[at : at + 1] for at in range(len(stream))])
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    _, body = await wire.answer()
    assert body == FIRST + ODD + LAST + speech.end


@each
async def test_lines_that_end_in_crlf_keep_their_ends(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    stream = (FIRST + ODD + LAST + speech.end).replace(b"\n", b"\r\n")
    wire = await edge.open()
    for cut in (len(stream) // 3, stream.index(b"\r\n\r\n") + 1, stream.index(b"\r\n\r\n") + 3):
        engine.script = Script([stream[:cut], stream[cut:]])
        wire.ask(speech.path, speech.ask(stream=True))
        head, body = await wire.answer()
        assert body == stream
        assert (await edge.exchange(head.event_id))[1].body == stream


@each
async def test_no_event_waits_for_the_next_one(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    events = [part + b"\n\n" for part in (FIRST + ODD).split(b"\n\n") if part]
    gates = [asyncio.Event() for _ in events]
    pieces = [piece for pair in zip(events, gates, strict=True) for piece in pair]
    engine.script = Script([*pieces, RECORD_EVENT + LAST + speech.end])
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    await wire.head()
    for number, gate in enumerate(gates):
        await wire.until(b"".join(events[: number + 1]))
        gate.set()
    assert (await wire.rest()).endswith(LAST + speech.end)


@each
async def test_the_engines_own_headers_and_chunks_are_seen(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    engine.script = Script([FIRST, RECORD_EVENT + LAST + speech.end], headers={"x-engine-says": "so", "cache-control": "no-cache"})
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    head, _ = await wire.answer()
    assert (head.status, head.headers["x-engine-says"], head.headers["cache-control"]) == (200, "so", "no-cache")
    assert head.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert head.headers["transfer-encoding"] == "chunked" and "content-length" not in head.headers
