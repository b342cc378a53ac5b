"""Requests that are broken, huge or odd: served, or refused at once in the dialect's form, and harmless to those after them."""

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.cases.edge import Edge, running_edge
from tests.cases.speech import ALL, CHAT, Speech, each
from tests.cases.wire import request
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEEP = b"[" * 200_000 + b"]" * 200_000
BROKEN = {
    "empty": b"",
    "not JSON": b"hello",
    "cut": b'{"model":"tiny","messages":[',
    "two documents": b'{"model":"tiny"}{"model":"tiny"}',
    "not an object": b"[1]",
    "invalid UTF-8": b'{"model":"tiny","x":"\xff\xfe"}',
    "overlong UTF-8": b'{"model":"tiny","x":"\xc0\xaf"}',
    "half of a surrogate pair in UTF-8": b'{"model":"tiny","x":"\xed\xa0\x80"}',
    "half of an escaped surrogate pair": b'{"model":"tiny","x":"\\ud83d"}',
    "NUL": b'{"model":"tiny","x":"\x00"}',
    "NaN": b'{"model":"tiny","temperature":NaN}',
    "deep": b'{"model":"tiny","x":' + DEEP + b"}",
    "deep and unclosed": b'{"model":"tiny","x":' + b'{"a":' * 200_000,
    "model of another type": b'{"model":{"a":1}}',
    "unknown model": b'{"model":"nobody"}',
}
ODD_BUT_GOOD = {
    "duplicate keys": b'{"model":"nobody","model":"tiny","user":"a","user":"b",%s}',
    "escapes": b'{"\\u006dodel":"t\\u0069ny",%s}',
    "big numbers": b'{"model":"tiny","seed":123456789012345678901234567890,"x":1e400,%s}',
    "white space": b' \r\n\t{"model" : "tiny" , %s } \n',
    "fifty levels": b'{"model":"tiny","x":' + b"[" * 50 + b"]" * 50 + b",%s}",
    "unknown fields": b'{"model":"tiny","future":{"a":[null,true,-0.0]},%s}',
}


def good(speech: Speech, form: bytes = b"{%s}") -> bytes:
    """A request of ``form`` around what the dialect needs."""
    return form.replace(b"%s", json.dumps(speech.opening("hello")).encode()[1:-1])


async def served(edge: Edge, speech: Speech) -> None:
    """A good call is."""
    wire = await edge.open()
    wire.ask(speech.path, speech.ask())
    assert (await wire.answer())[0].status == 200


@each
@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
async def test_a_broken_request_is_refused_before_the_engine_is_asked(
    edge: Edge, engine: FakeEngine, speech: Speech, raw: bytes
) -> None:
    before = edge.halves().keys()
    wire = await edge.open()
    wire.ask(speech.path, raw)
    head, body = await wire.answer()
    assert head.status == (404 if b"nobody" in raw else 400)
    speech.check_error(head.status, head.headers, body)
    assert engine.calls == [] and edge.halves().keys() == before
    wire.ask(speech.path, speech.ask())  # the connection is still good
    assert (await wire.answer())[0].status == 200


@each
@pytest.mark.parametrize("form", ODD_BUT_GOOD.values(), ids=ODD_BUT_GOOD)
async def test_an_odd_request_reaches_the_engine_byte_for_byte(edge: Edge, engine: FakeEngine, speech: Speech, form: bytes) -> None:
    raw = good(speech, form)
    wire = await edge.open()
    wire.ask(speech.path, raw)
    head, _ = await wire.answer()
    assert head.status == 200
    assert engine.calls[0].body == raw == (await edge.exchange(head.event_id))[0].body


@each
async def test_a_thousand_messages_are_no_matter(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    many = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"number {at}"} for at in range(1001)]
    body = {name: value for name, value in speech.ask("x " * 1000).items() if name not in ("messages", "input")}
    body |= {"messages": {"messages": many}, "chat": {"messages": many}, "responses": {"input": many}}.get(speech.name, {})
    wire = await edge.open()
    wire.ask(speech.path, body)
    assert (await wire.answer())[0].status == 200
    assert json.loads(engine.calls[0].body) == body


@each
@pytest.mark.parametrize(("name", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("x-gzip", gzip.compress)])
async def test_a_compressed_request_is_undone(edge: Edge, engine: FakeEngine, speech: Speech, name: str, packed) -> None:  # type: ignore[no-untyped-def]
    raw = json.dumps(speech.ask()).encode()
    wire = await edge.open()
    wire.ask(speech.path, packed(raw), content_encoding=name)
    head, _ = await wire.answer()
    assert head.status == 200
    assert engine.calls[0].body == raw == (await edge.exchange(head.event_id))[0].body


@each
async def test_damaged_cut_and_exploding_compression_are_refused(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    packed = gzip.compress(json.dumps(speech.ask()).encode())
    bomb = gzip.compress(bytes(200 << 20), 1)
    for raw, encoding, status in [
        (b"no gzip", "gzip", 400),
        (packed[:-9], "gzip", 400),
        (packed, "br", 415),
        (bomb, "gzip", 413),
    ]:
        wire = await edge.open()
        wire.ask(speech.path, raw, content_encoding=encoding)
        head, body = await wire.answer()
        assert head.status == status
        speech.check_error(head.status, head.headers, body)
    assert engine.calls == []


@each
@pytest.mark.parametrize("in_chunks", [False, True])
async def test_twenty_megabytes_are_too_many_and_ten_are_not(
    edge: Edge, engine: FakeEngine, speech: Speech, in_chunks: bool
) -> None:
    for size, status in ((20_000_000, 413), (10_000_000, 200)):
        raw = json.dumps(speech.ask(padding="x" * size)).encode()
        wire = await edge.open()
        wire.send(in_one_chunked_body(speech.path, raw) if in_chunks else request(speech.path, raw))
        head, body = await wire.answer()
        assert head.status == status
        if status == 413:
            speech.check_error(head.status, head.headers, body)
            assert engine.calls == []
    assert engine.calls[0].body == raw
    await served(edge, speech)


def in_one_chunked_body(path: str, raw: bytes) -> bytes:
    """The same request without a length."""
    head = request(path, b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    pieces = [raw[at : at + 60_000] for at in range(0, len(raw), 60_000)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def test_a_body_that_comes_byte_by_byte_in_chunks_is_whole(edge: Edge, engine: FakeEngine) -> None:
    raw = json.dumps(CHAT.ask("é🙂")).encode()
    head = request(CHAT.path, b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    wire = await edge.open()
    wire.send(head + b"".join(b"1;ext=1\r\n%b\r\n" % raw[at : at + 1] for at in range(len(raw))) + b"0\r\nx-trailer: 1\r\n\r\n")
    assert (await wire.answer())[0].status == 200
    assert engine.calls[0].body == raw


NOT_HTTP = {
    "two lengths": b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
    "length and chunks": b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length that is no number": b"content-length: five\r\n\r\n",
    "a negative length": b"content-length: -1\r\n\r\n",
    "a header without a colon": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("rest", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_what_is_no_http_is_refused_and_nothing_is_smuggled(edge: Edge, engine: FakeEngine, rest: bytes) -> None:
    wire = await edge.open()
    smuggled = request(CHAT.path, CHAT.ask("smuggled"))
    wire.send(b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_acme\r\n" % CHAT.path.encode() + rest + smuggled)
    head = await wire.head()
    assert head.status == 400
    await wire.ended()
    assert engine.calls == []
    await served(edge, CHAT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_workers() -> AsyncIterator[tuple[Edge, list[FakeEngine]]]:
    """A gateway with two workers."""
    engines = [FakeEngine(), FakeEngine()]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(engine.serve()) for engine in engines]
        yield await stack.enter_async_context(running_edge(urls)), engines


async def test_good_calls_are_served_by_every_worker_after_twenty_bad_ones_of_each_kind(
    two_workers: tuple[Edge, list[FakeEngine]],
) -> None:
    edge, engines = two_workers
    wire = await edge.open()
    for speech in ALL:
        for number in range(20):
            session = f"{speech.name}-{number}"
            wire.ask(speech.path, b"{", x_session_id=session)  # ours refuses
            assert (await wire.answer())[0].status == 400
            wire.ask(speech.path, {"model": "tiny"}, x_session_id=session)  # the engine's refuses
            head, _ = await wire.answer()
            assert head.status == 400 and "x-headrace-error" not in head.headers
    assert all(len(engine.calls) > 10 for engine in engines)
    for speech in ALL:
        for number in range(20):
            wire.ask(speech.path, speech.ask(), x_session_id=f"{speech.name}-{number}")
            assert (await wire.answer())[0].status == 200
    assert all(len(engine.calls) > 20 for engine in engines)
    assert set((await edge.get("/ready"))["workers"].values()) == {"ready"}
