"""Streams one after another on one connection: each first chunk leaves at once, none waits for an acknowledgement."""

import asyncio
import ctypes
import os
import socket
import sys
from typing import Any

import psutil
import pytest

from tests.cases.edge import Edge
from tests.cases.gate import Gate
from tests.cases.speech import Speech, each
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUM_STREAMS = 9
_PIDFD_GETFD = 438


@each
async def test_nine_streams_on_one_connection_are_alike_and_each_first_chunk_leaves_before_the_second_exists(
    edge: Edge, engine: FakeEngine, speech: Speech
) -> None:
    wire, shown = await edge.open(), []
    for _ in range(NUM_STREAMS):
        gate = Gate(after=2)
        engine.model.token_gate = gate
        wire.ask(speech.path, speech.ask("zebra", stream=True))
        head = await wire.head()
        await wire.until(b'"z"')
        gate.open.set()
        body = await wire.rest()
        rid = engine.calls[-1].headers["x-headrace-rid"]
        shown.append(body.replace(rid.encode(), b"ID").replace(rid[-12:].encode(), b"TAIL"))
        assert head.status == 200 and "connection" not in head.headers
    assert set(shown) == {shown[0]} and len(engine.calls) == NUM_STREAMS


@pytest.mark.skipif(sys.platform != "linux", reason="another process's sockets can be looked at on Linux only")
async def test_no_small_write_waits_on_either_side(edge: Edge, engine: FakeEngine) -> None:
    gate = asyncio.Event()
    engine.model.token_gate = gate.wait
    wire = await edge.open()
    wire.ask("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "zebra"}], "stream": True})
    await wire.head()
    agent_side = [one for one in connections(edge) if one.laddr.port == edge.port]
    engine_side = [one for one in connections(edge) if one.laddr.port != edge.port]
    assert agent_side and engine_side
    assert all(has_no_delay(edge, one.fd) for one in (*agent_side, *engine_side))
    gate.set()
    await wire.rest()


async def test_requests_that_arrive_together_are_answered_in_order(edge: Edge, engine: FakeEngine) -> None:
    wire = await edge.open()
    texts = [f"number {number}" for number in range(5)]
    body = {"model": "tiny", "messages": []}
    for text in texts:
        wire.ask("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}]})
    for text in texts:
        head, answer = await wire.answer()
        assert head.status == 200 and text.encode() in answer


def connections(edge: Edge) -> list[Any]:
    """The TCP connections of the gateway that carry something now."""
    return [one for one in edge.process.net_connections("tcp") if one.status == psutil.CONN_ESTABLISHED]


def has_no_delay(edge: Edge, fd: int) -> bool:
    """TCP_NODELAY of the gateway's socket ``fd``, by way of a duplicate of it."""
    process = os.pidfd_open(edge.process.pid)
    duplicate = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, fd, 0)
    os.close(process)
    assert duplicate >= 0, os.strerror(ctypes.get_errno())
    with socket.socket(fileno=duplicate) as copy:
        return bool(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
