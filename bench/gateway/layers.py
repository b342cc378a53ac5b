"""What each layer of our gateway costs, in process: the real protocol, relay and journal between transports that go nowhere.

``python -m bench.gateway.layers [--prompt 32k]`` prints µs of thread CPU time a call, best of rounds. The kernel's share is not in
it: sockets cost what ``python-floor`` of the whole bench costs beyond its line here.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import uvloop
from rich.console import Console
from rich.table import Table
from uvicorn.config import Config
from uvicorn.server import ServerState

from atdp.ids import mint_completion_id, new_event_id
from bench.gateway.cases import Case, Prompt, encode
from bench.gateway.contestants import PLAIN_KEY, RECORDING_KEY
from bench.gateway.floor import Agent, Upstream
from bench.gateway.keytable import table
from dataproxy.capture import Journal, JournalFailed, RequestHalf, ResponseHalf
from dataproxy.capture.layout import prepare
from dataproxy.capture.records import encode_halves
from dataproxy.capture.segment import Segment
from dataproxy.keyfiles import ensure
from gateway.app import App, create_gateway
from gateway.dialects import CHAT
from gateway.edge.heads import encode_answer, encode_lines
from gateway.parsing import parse_request
from gateway.record import split_json
from gateway.settings import Settings
from gateway.state import Gateway
from gateway.upstream.connection import Connection
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.choose import choose
from router.workers import Health

_ROUNDS, _CALLS = 15, 1000
_ENGINE = "http://127.0.0.1:30000"
_OUTPUT: Final = b"B" * 536


class Nowhere(asyncio.Transport):
    """A transport that keeps the last write."""

    last = b""

    def write(self, data: Any) -> None:
        self.last = data

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else default


class OneConnection(Pool):
    """A pool of one connection, always idle."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.connection = Connection()
        self.connection.connection_made(Nowhere())

    def take_idle(self, origin: Origin) -> Connection | None:
        return self.connection

    def release(self, connection: Connection, origin: Origin, *, keep: bool = True) -> None:
        return None


class NoJournal:
    """A journal that is durable at once."""

    def begin(self, half: RequestHalf) -> None:
        return None

    def commit(self, half: ResponseHalf, done: Callable[[JournalFailed | None], None]) -> None:
        done(None)

    def close(self) -> None:
        return None


def best_us(step: Callable[[], object], calls: int = _CALLS) -> float:
    """CPU µs of one ``step``, best of rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        begun = time.thread_time_ns()
        for _ in range(calls):
            step()
        best = min(best, (time.thread_time_ns() - begun) / calls / 1e3)
    return round(best, 2)


def engine_answer(prompt_bytes: int, *, record: bool) -> bytes:
    """The mock engine's answer to a prompt of that size, head and body."""
    body = b'{"id":"chatcmpl-0","object":"chat.completion","choices":[{"message":{"content":"%b"}}],"usage":null' % (b"x" * 450)
    if record:
        ids = b"A" * ((prompt_bytes // 4 * 4 + 2) // 3 * 4)
        body += b',"headrace_record":{"v":1,"prompt_ids":"%b","output_ids":"%b","logprobs":"%b"}' % (ids, _OUTPUT, _OUTPUT)
    head = b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b}" % (head, len(body) + 1, body)


def make_gateway(directory: Path) -> Gateway:
    """One that knows its keys and has a ready worker."""
    (directory / "run").mkdir()
    ensure(directory / "config")
    settings = Settings(data_dir=directory, config_dir=directory / "config", engine_urls=(_ENGINE,))  # type: ignore[call-arg]  # mypy without pydantic's plug-in
    gateway = create_gateway(settings, cast(Journal, NoJournal()))
    gateway.keys.load(table([RECORDING_KEY, PLAIN_KEY]))
    gateway.workers[0].models, gateway.workers[0].health = frozenset(["tiny"]), Health.READY
    return gateway


def whole_call_us(gateway: Gateway, request: bytes, answer: bytes) -> float:
    """From the request's bytes to the answer's, through every layer but the sockets and the journal."""
    pool, app = OneConnection(), App(gateway)
    gateway.pool = pool
    connection = app.http_protocol(config=Config(app, log_config=None), server_state=ServerState(), app_state={})
    transport = Nowhere()
    connection.connection_made(transport)

    def call() -> None:
        connection.data_received(request)
        pool.connection.data_received(answer)

    call()
    if not transport.last.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the gateway answered {transport.last[:200]!r}")
    return best_us(call)


def event_us(gateway: Gateway, request: bytes) -> float:
    """One event of a stream on its way to the agent."""
    pool, app = OneConnection(), App(gateway)
    gateway.pool = pool
    connection = app.http_protocol(config=Config(app, log_config=None), server_state=ServerState(), app_state={})
    connection.connection_made(Nowhere())
    connection.data_received(request)
    pool.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    event = b'data: {"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}%b\n\n' % (
        b" " * 100
    )
    return best_us(partial(pool.connection.data_received, b"%x\r\n%b\r\n" % (len(event), event)))


def floor_us(request: bytes, answer: bytes) -> float:
    """The same of the floor: httptools on both sides."""
    agent = Agent()
    agent.connection_made(Nowhere())
    upstream = Upstream(agent)
    upstream.connection_made(Nowhere())
    agent.__dict__["_upstream"] = upstream

    def call() -> None:
        agent.data_received(request)
        upstream.data_received(answer)

    return best_us(call)


def step_costs(gateway: Gateway, request: bytes, answer: bytes) -> list[tuple[str, float]]:
    """Steps of a call alone, with the arguments that the call gives them."""
    body = request.partition(b"\r\n\r\n")[2]
    parsed, key = parse_request(body), f"Bearer {RECORDING_KEY}".encode()
    identity = gateway.keys.known_caller(key)
    event_id = new_event_id()
    namer, admission = gateway.namer, gateway.admission
    session = namer.name("bench", "k0", "", b"", parsed, CHAT)
    answer_body, headers = answer.partition(b"\r\n\r\n")[2], [(b"content-type", b"application/json"), (b"server", b"uvicorn")]

    def enter() -> None:
        ticket = admission.try_enter(identity, len(body), "tiny")
        if ticket is not None:
            admission.leave(ticket, 0)

    return [
        ("key of a new connection", best_us(partial(gateway.keys.known_caller, key))),
        ("event id and completion id with MAC", best_us(lambda: mint_completion_id(gateway.mac_secret, "bench", new_event_id()))),
        ("parse: JSON checked, fields found", best_us(partial(parse_request, body))),
        ("session by the conversation's opening", best_us(partial(namer.name, "bench", "k0", "", b"", parsed, CHAT))),
        ("admission: enter and leave", best_us(enter)),
        ("choice of a worker", best_us(partial(choose, session.affinity, "tiny", gateway.workers, gateway.routing))),
        ("record cut out of the answer", best_us(partial(split_json, answer_body))),
        ("answer's head", best_us(partial(encode_answer, 200, encode_lines(headers), 600, b"", framed=True, close=False))),
        ("a metric counted", best_us(partial(gateway.metrics.add, "bench"))),
        ("(an event id alone)", best_us(lambda: (event_id, new_event_id()))),
    ]


def journal_costs(directory: Path, request: bytes, answer: bytes) -> list[tuple[str, float]]:
    """Steps of the journal for one exchange, both halves: what its thread does."""
    body, (answer_body, record) = request.partition(b"\r\n\r\n")[2], split_json(answer.partition(b"\r\n\r\n")[2])
    names = ("bench", "bench", "k0", "inferred-0", "inferred")
    event_id, path = new_event_id(), "/v1/chat/completions"
    question = RequestHalf(event_id, f"chatcmpl-{event_id}", *names, "chat", path, "tiny", body, {}, 1)
    reply = ResponseHalf(event_id, 200, answer_body, record, False, "complete", _ENGINE, 1, 2)
    prepare(directory / "journal")
    segment = Segment(directory / "journal", bytes.fromhex((directory / "config" / "journal.pub").read_text().strip()), "bench", 0)
    plain = [encode_halves([question, reply])]
    frames = [segment.frame("bench", half) for half in plain]

    def durable() -> None:
        segment.write(frames)
        segment.sync()

    costs = [
        ("msgpack of both halves", best_us(lambda: encode_halves([question, reply]))),
        ("seal and frame of both", best_us(lambda: [segment.frame("bench", half) for half in plain])),
        ("write, one exchange at a time", best_us(partial(segment.write, frames), 100)),
        ("write, sixteen at once, each", round(best_us(partial(segment.write, frames * 16), 20) / 16, 2)),
        ("write and fdatasync, one exchange at a time", best_us(durable, 20)),
    ]
    segment.close()
    return costs


async def main(prompt: Prompt) -> None:
    """Measure and print; the last line is JSON."""
    request, quiet = encode(Case(prompt=prompt), RECORDING_KEY), encode(Case(prompt=prompt), PLAIN_KEY)
    size = len(request.partition(b"\r\n\r\n")[2])
    plain_answer, answer = engine_answer(size, record=False), engine_answer(size, record=True)
    with tempfile.TemporaryDirectory(prefix="hr-") as name:
        directory = Path(name)
        gateway = make_gateway(directory)
        rows = [
            ("floor: httptools on both sides, no duties", floor_us(quiet, plain_answer)),
            ("whole call, recording off, without sockets", whole_call_us(gateway, quiet, plain_answer)),
            ("whole call, recording on, without sockets and journal", whole_call_us(gateway, request, answer)),
            ("one event of a stream, without sockets", event_us(gateway, encode(Case(prompt=prompt, gap_us=5000), RECORDING_KEY))),
            *step_costs(gateway, request, answer),
            *journal_costs(directory, request, answer),
        ]
    shown = Table("layer", "µs", box=None)
    for layer, us in rows:
        shown.add_row(layer, f"{us:.2f}")
    Console(stderr=True).print(shown)
    print(json.dumps({"bench": "gateway layers", "prompt": prompt, "us": dict(rows)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.gateway.layers", description="What each layer costs.")
    parser.add_argument("--prompt", choices=["1k", "32k"], default="1k")
    uvloop.run(main(parser.parse_args().prompt))
