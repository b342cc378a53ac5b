"""The hot routes at the HTTP protocol: rare shapes of requests, many on one connection, and heads that are known from before."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.known_head import KnownHead
from gateway.polling import KeyPoller
from tests.fakes.dataproxy import key_row
from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script
from tests.gateway.conftest import run_gateway
from tests.gateway.sse import CHAT, eventually


def request(text="hello", *, path=CHAT, key="hr_acme", headers=(), version="1.1", **fields):
    """The bytes of a call."""
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}).encode()
    lines = [f"POST {path} HTTP/{version}", "host: x", f"authorization: Bearer {key}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def connected(served):
    """A connection to the gateway; reads whole answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
    try:
        async with asyncio.timeout(15):
            yield reader, writer
    finally:
        writer.close()


async def answer(reader):
    """(status, headers, body) of the next answer with a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
    return int(head.split()[1]), fields, await reader.readexactly(int(fields["content-length"]))


def said(body):
    return json.loads(body)["choices"][0]["message"]["content"]


async def test_calls_of_any_size_follow_one_another_on_one_connection(served):
    async with connected(served) as (reader, writer):
        for text in ("a", "bb", "b" * 500, "c", "d" * 3000, "a"):
            writer.write(request(text))
            status, fields, body = await answer(reader)
            assert (status, said(body)) == (200, text)
            assert len(fields["x-headrace-event"]) == 32
    assert len({half.event_id for half in served.journal.begun.values()}) == 6


OFFER = ("Connection: keep-alive, Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAB")


@pytest.mark.parametrize("cut", [None, 100, 180, -3])
async def test_a_call_that_offers_another_protocol_is_served_as_it_is_and_so_is_the_next(served, cut):
    """As Java's HTTP client sends every call."""
    async with connected(served) as (reader, writer):
        for text in ("a", "b"):
            sent = request(text, headers=OFFER)
            for piece in (sent,) if cut is None else (sent[:cut], sent[cut:]):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            status, _, body = await answer(reader)
            assert (status, said(body)) == (200, text)
        writer.write(b"\r\n".join([b"GET /health HTTP/1.1", b"host: x", *(line.encode() for line in OFFER), b"", b""]))
        assert (await answer(reader))[0] == 200
    assert len(served.engine.calls) == 2


async def test_connect_is_400(served):
    async with connected(served) as (reader, writer):
        writer.write(b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org:443\r\n\r\n")
        assert (await answer(reader))[0] == 400


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (request("b", key="hr_other"), 200),
        (request("b", key="hr_wrong"), 401),
        (request("b", headers=["x-session-id: s2"]), 200),
        (request("b", path=f"/s/s3{CHAT}"), 200),
        (request("b", path="/v1/completions", prompt="b"), 200),
        (request("b", headers=["content-encoding: br"]), 415),
        (request("b").replace(b"hello", b""), 200),
        (request("b")[:-1] + b"]", 400),
    ],
)
async def test_a_head_that_differs_from_the_one_before_means_what_it_says(served, second, status):
    async with connected(served) as (reader, writer):
        for raw, expected in ((request("a"), 200), (request("a"), 200), (second, status)):
            writer.write(raw)
            assert (await answer(reader))[0] == expected
    tenants = [half.tenant for half in served.journal.begun.values()]
    sessions = [half.session_id for half in served.journal.begun.values()]
    assert tenants == ["acme", "acme", "other" if b"hr_other" in second else "acme"][: len(tenants)]
    assert (sessions[-1] in ("s2", "s3")) == (b"s2" in second or b"s3" in second)


async def test_a_key_that_is_revoked_is_refused_on_a_connection_that_used_it(served):
    async with connected(served) as (reader, writer):
        for _ in range(2):
            writer.write(request())
            assert (await answer(reader))[0] == 200
        served.gateway.keys.load(b"[]")
        writer.write(request())
        assert (await answer(reader))[0] == 401


HEAD = b"POST / HTTP/1.1\r\nA: 1\r\nContent-Length: 3\r\nB: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (HEAD + b"abc", b"abc"),
        (HEAD.replace(b"3", b"0"), b""),
        (HEAD.replace(b"3", b"12") + b"x" * 12, b"x" * 12),
        (HEAD + b"ab", None),
        (HEAD + b"abcd", None),
        (HEAD.replace(b"3", b"") + b"abc", None),
        (HEAD.replace(b"3", b"+3") + b"abc", None),
        (HEAD.replace(b"3", b"3x") + b"abc", None),
        (HEAD.replace(b"A: 1", b"A: 2") + b"abc", None),
        (HEAD.replace(b"B: 2", b"B: 3") + b"abc", None),
        (HEAD.replace(b"\r\nB: 2", b"") + b"abc", None),
        (HEAD.replace(b"B: 2", b"B: 2\r\nTransfer-Encoding: chunked") + b"abc", None),
        (HEAD.replace(b"3", b"1" * 20) + b"abc", None),
        (HEAD[:20], None),
        (b"", None),
    ],
)
def test_only_the_same_head_with_exactly_its_body_is_known(data, body):
    known = KnownHead.of(HEAD + b"xyz", "meaning")
    assert known is not None and known.meaning == "meaning"
    assert known.body(data) == body


def test_a_head_that_is_cut_or_has_no_length_is_not_remembered():
    assert KnownHead.of(HEAD[:-2], "m") is None
    assert KnownHead.of(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "m") is None


@pytest.mark.parametrize("at", [1, 30, 120, -3])
async def test_a_request_in_two_pieces_is_served_and_so_is_the_next(served, at):
    async with connected(served) as (reader, writer):
        for _ in range(3):
            raw = request("hello")
            writer.write(raw[:at])
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(raw[at:])
            assert said((await answer(reader))[2]) == "hello"


async def test_pipelined_calls_and_other_routes_are_answered_in_order(served):
    health = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    async with connected(served) as (reader, writer):
        writer.write(request("a") + request("b") + health + request("c") + health)
        bodies = [(await answer(reader))[2] for _ in range(5)]
        writer.write(request("d"))
        bodies.append((await answer(reader))[2])
    assert [b"ok" if b"status" in body else said(body) for body in bodies] == ["a", "b", b"ok", "c", b"ok", "d"]


async def test_an_agent_that_pipelines_and_leaves_starts_nothing_more(served):
    served.engine.model.unpaused.clear()
    async with connected(served) as (_, writer):
        writer.write(request("a") + request("b"))
        await eventually(lambda: served.engine.calls)
    await eventually(lambda: not served.gateway.agents and not served.gateway.running)
    assert len(served.engine.calls) == 1


async def test_a_large_body_behind_a_call_that_runs_is_not_read_before_its_turn(served):
    served.engine.model.unpaused.clear()
    async with connected(served) as (reader, writer):
        writer.write(request("a"))
        await eventually(lambda: served.engine.calls)
        writer.write(request("b", metadata={"padding": "x" * 2_000_000}))
        (agent,) = served.gateway.agents
        await eventually(lambda: agent.flow.read_paused)
        served.engine.model.unpaused.set()
        assert [said((await answer(reader))[2]) for _ in range(2)] == ["a", "b"]


async def test_http_1_0_gets_no_chunks_and_its_connection_ends_with_the_answer(served):
    served.engine.script = Script([b"data: 1\n\n", b"data: [DONE]\n\n"])
    async with connected(served) as (reader, writer):
        writer.write(request(version="1.0", stream=True))
        raw = await reader.read()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head and b"connection: close" in head
    assert body == b"data: 1\n\ndata: [DONE]\n\n"


async def test_a_client_that_wants_to_close_gets_its_wish(served):
    async with connected(served) as (reader, writer):
        writer.write(request(headers=["connection: close"]))
        assert b"connection: close" in await reader.readuntil(b"\r\n\r\n")
        assert await reader.read()
        assert reader.at_eof()


async def test_an_idle_connection_is_closed_after_its_time_and_a_busy_one_is_not(served):
    async with connected(served) as (reader, writer), connected(served) as (busy_reader, busy):
        writer.write(request())
        await answer(reader)
        served.engine.model.unpaused.clear()
        busy.write(request())
        await eventually(lambda: len(served.engine.calls) == 2)
        for agent in served.gateway.agents:
            agent.sweep(agent.loop.time() + 76)
        assert await reader.read() == b""
        served.engine.model.unpaused.set()
        assert (await answer(busy_reader))[0] == 200


async def test_a_connection_that_says_nothing_is_closed_without_a_word(served):
    async with connected(served) as (reader, _):
        await eventually(lambda: served.gateway.agents)
        for agent in served.gateway.agents:
            agent.sweep(agent.loop.time() + 76)
        with suppress(ConnectionError):
            assert await reader.read() == b""


class Ahead:
    """A connection's loop whose clock can be put forward."""

    def __init__(self, loop):
        self._loop, self.by_s = loop, 0.0

    def time(self):
        return self._loop.time() + self.by_s

    def __getattr__(self, name):
        return getattr(self._loop, name)


@pytest.mark.parametrize("begun", [f"POST {CHAT} HTTP/1.1\r\nhost: x\r\n".encode(), b"GET /health HTTP/1.1\r\nhost"])
async def test_a_head_that_comes_byte_by_byte_is_408_after_a_while_however_steadily(served, begun):
    async with connected(served) as (reader, writer):
        await eventually(lambda: served.gateway.agents)
        (agent,) = served.gateway.agents
        agent.loop = clock = Ahead(agent.loop)
        writer.write(begun)
        await eventually(lambda: not agent._between)
        for _ in range(4):
            seen = agent._num_fruitless
            writer.write(b"x")
            await eventually(lambda seen=seen: agent._num_fruitless > seen)
            assert not agent.transport.is_closing()
            clock.by_s += 9
            agent.sweep(clock.time())
        status, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert status.startswith(b"HTTP/1.1 408 ") and b"x-headrace-error: head_timeout" in status
    assert json.loads(body)["error"]["code"] == "head_timeout"
    await eventually(lambda: not served.gateway.agents)


async def test_a_body_that_comes_byte_by_byte_is_408_after_a_while_however_steadily(served):
    async with connected(served) as (reader, writer):
        await eventually(lambda: served.gateway.agents)
        (agent,) = served.gateway.agents
        agent.loop = clock = Ahead(agent.loop)
        writer.write(ACME + b"content-length: 1000\r\n\r\n")
        await eventually(lambda: agent._served is not None and agent._served._body is not None)
        call = agent._served
        for number in range(1, 12):
            assert call._status == 0
            writer.write(b" ")
            await eventually(lambda number=number: call._body._size == number)
            clock.by_s += 29
            agent.sweep(clock.time())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")
        clock.by_s += 29
        agent.sweep(clock.time())
        assert b"body_timeout" in await reader.read()
    await eventually(lambda: not served.gateway.agents)
    assert served.engine.calls == [] and served.gateway.admission.num_waiting == 0


@pytest.mark.parametrize("path", ["/v1/feedback", "/v1/workers"])
async def test_a_body_of_another_route_that_does_not_come_is_408_too(run_dir, path):
    engine = FakeEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url], body_timeout_s=0.02) as served:
        served.dataproxy.keys.append(key_row("hr_operator", tenant="", agent="", role="admin"))
        await KeyPoller(served.gateway)()
        async with connected(served) as (reader, writer):
            writer.write(
                f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_operator\r\ncontent-length: 9\r\n\r\n".encode()
            )
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_no_route_wants_does_not_hold_its_connection(served):
    async with connected(served) as (reader, writer):
        await eventually(lambda: served.gateway.agents)
        (agent,) = served.gateway.agents
        agent.loop = clock = Ahead(agent.loop)
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n ")
        assert (await answer(reader))[0] == 200
        clock.by_s += 29
        agent.sweep(clock.time())
        assert not agent.transport.is_closing()
        writer.write(b" ")
        clock.by_s += 600
        agent.sweep(clock.time())
        await eventually(lambda: not served.gateway.agents)


async def test_a_body_that_no_route_wants_may_come_late_and_the_connection_goes_on(served):
    async with connected(served) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n ")
        assert (await answer(reader))[0] == 200
        writer.write(b" ")
        await eventually(lambda: next(iter(served.gateway.agents))._between)
        writer.write(request())
        assert (await answer(reader))[0] == 200


ACME = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_acme\r\n".encode()


@pytest.mark.parametrize(
    "endless",
    [ACME + b"x-long: ", ACME + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx-long: ", b"GET /health HTTP/1.1\r\nx-long: "],
)
@pytest.mark.parametrize("filler", [b"a" * 1000, b"a\r\nx-more: " * 100])
async def test_an_endless_head_or_trailer_ends_the_connection(served, endless, filler):
    async with connected(served) as (reader, writer):
        writer.write(endless + filler * 1000)
        with suppress(ConnectionError):
            await reader.read()
    assert served.engine.calls == []


async def test_a_body_may_take_its_time_as_long_as_it_goes_on(served):
    async with connected(served) as (reader, writer):
        await eventually(lambda: served.gateway.agents)
        (agent,) = served.gateway.agents
        agent.loop = clock = Ahead(agent.loop)
        head, _, body = request("hello" * 20).partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n" + body[:5])
        await eventually(lambda: agent._served is not None and agent._served._body._size == 5)
        for at in range(5, len(body) - 1, 40):
            clock.by_s += 29
            agent.sweep(clock.time())
            part = body[at : min(at + 40, len(body) - 1)]
            writer.write(part)
            end = at + len(part)
            await eventually(lambda end=end: agent._served._body._size == end)
        writer.write(body[-1:])
        assert (await answer(reader))[0] == 200


async def test_bytes_that_are_not_http_are_400_and_harm_nobody(served):
    async with connected(served) as (reader, writer):
        writer.write(b"\x00\x01nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
    async with connected(served) as (reader, writer):
        writer.write(request())
        assert (await answer(reader))[0] == 200


async def test_a_query_does_not_hide_a_hot_path(served):
    async with connected(served) as (reader, writer):
        writer.write(request(path=f"{CHAT}?beta=true"))
        assert (await answer(reader))[0] == 200
    assert served.engine.calls[0].headers["x-headrace-rid"]


async def test_an_agent_that_leaves_before_the_first_key_table_leaves_nothing(run_dir):
    engine = FakeEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url]) as served:
        served.gateway.keys._loaded.clear()
        async with connected(served) as (_, writer):
            writer.write(request())
            await eventually(lambda: served.gateway.waiting)
        await eventually(lambda: not served.gateway.waiting and not served.gateway.agents)
        assert engine.calls == []
