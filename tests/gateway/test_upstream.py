"""The upstream client against a server that sends exactly these bytes."""

import asyncio
import math
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import UpstreamLost, UpstreamTimeout, UpstreamUnreachable
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.limits import NO_LIMITS, Limits
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5\r\nhello\r\n3\r\n wo\r\n3\r\nrld\r\n0\r\n\r\n"
ASK = Request("GET", "/x", [(b"x-h", b"1")])


@asynccontextmanager
async def server(*answers, keep=True):
    """A server that gives each request on a connection the next list of pieces; counts connections."""
    left, connections = list(answers), []

    async def handle(reader, writer):
        connections.append(writer)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                for piece in left.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if not keep or not left:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        yield Origin.parse(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"), connections


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, len(CHUNKED) - 1), max_size=12))
async def test_an_answer_is_the_same_wherever_its_pieces_break(cuts):
    borders = [0, *sorted(set(cuts)), len(CHUNKED)]
    pieces = [CHUNKED[a:b] for a, b in pairwise(borders)]
    pool = Pool(1)
    async with server(pieces) as (origin, _):
        answer = await fetch(pool, origin, ASK, 5)
    assert (answer.status, answer.head.get(b"x-a"), answer.body) == (200, b"b", b"hello world")


async def test_connections_are_kept_and_a_closed_one_is_replaced():
    pool = Pool(1)
    async with server([CHUNKED], [CHUNKED], [CHUNKED]) as (origin, connections):
        await fetch(pool, origin, ASK, 5)
        await fetch(pool, origin, ASK, 5)
        assert len(connections) == 1
        connections[0].close()
        assert (await fetch(pool, origin, ASK, 5)).body == b"hello world"
        assert len(connections) == 2


async def test_what_must_not_be_sent_twice_goes_over_a_new_connection():
    pool = Pool(1)
    async with server([CHUNKED], [CHUNKED]) as (origin, connections):
        await fetch(pool, origin, ASK, 5)
        await fetch(pool, origin, ASK, 5, repeatable=False)
        assert len(connections) == 2


async def test_a_connection_that_nobody_would_take_again_is_not_kept():
    """Else as many stay open as were made in the seconds that idle ones are kept for."""
    pool = Pool(1)
    async with server([CHUNKED]) as (origin, _):
        await fetch(pool, origin, ASK, 5, repeatable=False)
        assert pool.take_idle(origin) is None and pool.num_active == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        CHUNKED[:-5],
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
async def test_an_answer_that_is_not_whole_is_lost(answer):
    pool = Pool(1)
    async with server([answer], keep=False) as (origin, _):
        with pytest.raises(UpstreamLost):
            await fetch(pool, origin, ASK, 5)
    assert pool.num_active == 0


async def test_an_answer_that_ends_with_its_connection_is_whole_and_a_100_is_passed_over():
    pool = Pool(1)
    async with server([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nabc"], keep=False) as (origin, _):
        assert (await fetch(pool, origin, ASK, 5)).body == b"abc"
        assert pool.take_idle(origin) is None


async def test_a_server_that_says_nothing_is_a_time_out_and_none_is_unreachable(unused_tcp_port=1):
    pool = Pool(1)
    async with server([b"HTTP/1.1 200 OK\r\n"]) as (origin, _):
        with pytest.raises((UpstreamTimeout, UpstreamLost)):
            await fetch(pool, origin, ASK, 0.05)
    with pytest.raises(UpstreamUnreachable):
        await fetch(pool, Origin.parse(f"http://127.0.0.1:{unused_tcp_port}"), ASK, 5)


@pytest.mark.parametrize(
    ("now", "heard", "paused", "exceeded"),
    [
        (105.0, math.inf, False, None),
        (105.1, math.inf, False, "first_byte_timeout_s"),
        (106.0, 104.0, False, None),
        (106.1, 104.0, False, "idle_timeout_s"),
        (159.0, 104.0, True, None),
        (160.1, 160.0, False, "total_timeout_s"),
        (160.1, 104.0, True, "total_timeout_s"),
    ],
)
def test_limits_count_from_start_first_byte_and_last_byte(now, heard, paused, exceeded):
    limits = Limits(first_byte_s=5, idle_s=2, total_s=60)
    assert limits.exceeded(now, 100.0, heard, paused) == exceeded
    assert NO_LIMITS.exceeded(1e12, 100.0, heard, paused) is None


@pytest.mark.parametrize("url", ["htps://a", "ftp://a", "a:1", "http://", "http://a/path"])
def test_only_base_urls_are_origins(url):
    with pytest.raises(ValueError, match="base URL"):
        Origin.parse(url)
