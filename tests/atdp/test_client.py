"""The client: what it queues, what it sends again, what it says of what was refused. The gateway here is a small HTTP server."""

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atdp.client import AsyncEventClient, BufferFull, BufferInUse, Denied, EventClient, NotSent
from atdp.client.disk import DiskQueue
from atdp.client.queues import MemoryQueue, Queue


class Gateway:
    """Answers as told; keeps what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.retry_after: str | None = None
        self.refused: set[str] = set()
        self.unfit: set[str] = set()
        self.events: list[dict[str, Any]] = []
        self.sessions: list[str | None] = []
        self.num_posts = 0
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
                gateway.sessions.append(self.headers["X-Headrace-Session"])
                status, answer = gateway.answer(json.loads(body)["events"])
                self.send_response(status)
                if gateway.retry_after is not None:
                    self.send_header("Retry-After", gateway.retry_after)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, events: list[dict[str, Any]]) -> tuple[int, bytes]:
        self.num_posts += 1
        if self.status != 200:
            return self.status, b'{"error":{"message":"as told"}}'
        if any(event["kind"] in self.unfit for event in events):
            return 400, b'{"error":{"message":"no batch"}}'
        known = {event["event_id"] for event in self.events}
        fates = ["duplicate" if e["event_id"] in known else "refused" if e["kind"] in self.refused else "stored" for e in events]
        self.events += [event for event, fate in zip(events, fates, strict=True) if fate == "stored"]
        receipts = [{"event_id": e["event_id"], "status": fate, "reason": "r"} for e, fate in zip(events, fates, strict=True)]
        return 200, json.dumps({"receipts": receipts}).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.close()


def make_queue(kind: str, directory: Path, max_bytes: int = 1000) -> Queue:
    return MemoryQueue(max_bytes) if kind == "memory" else DiskQueue(directory, max_bytes)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_queue_gives_in_order_what_was_put_and_not_dropped(kind: str, tmp_path: Path) -> None:
    queue = make_queue(kind, tmp_path / "b")
    for name in b"abcde":
        queue.put(bytes([name]) * 10)
    assert [event[:1] for event in queue.peek(2, 1000)] == [b"a", b"b"]
    assert [event[:1] for event in queue.peek(9, 25)] == [b"a", b"b"]
    assert len(queue.peek(9, 1)) == 1
    queue.drop(2)
    assert [event[:1] for event in queue.peek(9, 1000)] == [b"c", b"d", b"e"] and len(queue) == 3
    queue.put(b"f")
    queue.drop(4)
    assert queue.peek(9, 1000) == [] and len(queue) == 0
    queue.close()


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_full_queue_takes_nothing_until_something_is_dropped(kind: str, tmp_path: Path) -> None:
    queue = make_queue(kind, tmp_path / "b", max_bytes=25)
    queue.put(b"a" * 10)
    queue.put(b"b" * 10)
    with pytest.raises(BufferFull):
        queue.put(b"c" * 10)
    queue.drop(1)
    queue.put(b"c" * 10)
    assert [event[:1] for event in queue.peek(9, 1000)] == [b"b", b"c"]
    queue.close()


def test_a_buffer_opens_with_what_was_left_over_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atdp.client.disk._SEGMENT_BYTES", 30)
    queue = DiskQueue(tmp_path, 10_000)
    for number in range(20):
        queue.put(b"%010d" % number)
    queue.drop(7)
    queue.close()
    again = DiskQueue(tmp_path, 10_000)
    assert [int(event) for event in again.peek(99, 10_000)] == list(range(7, 20)) and len(again) == 13
    again.drop(13)
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    again.put(b"20")
    assert again.peek(9, 100) == [b"20"]
    again.close()


def test_a_torn_line_is_cut_off_and_nothing_else(tmp_path: Path) -> None:
    queue = DiskQueue(tmp_path, 10_000)
    queue.put(b"whole")
    queue.close()
    (segment,) = tmp_path.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"torn":')
    again = DiskQueue(tmp_path, 10_000)
    again.put(b"next")
    assert again.peek(9, 100) == [b"whole", b"next"]
    again.close()


def test_a_buffer_belongs_to_one_process_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    queue = DiskQueue(tmp_path, 10_000)
    with pytest.raises(BufferInUse):
        DiskQueue(tmp_path, 10_000)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*.jsonl")} == {0}
    queue.close()


def test_events_go_out_in_batches_under_the_session_and_each_is_stored_once(gateway: Gateway) -> None:
    with EventClient(gateway.url, "hr_x", session_id="s1", interval_s=60) as client:
        for number in range(1500):
            client.record("retrieval", y={"n": number})
        outcome = client.flush(20)
    assert (outcome.num_stored, outcome.refused, gateway.num_posts) == (1500, [], 2)
    assert [event["y"]["n"] for event in gateway.events] == list(range(1500)) and set(gateway.sessions) == {"s1"}
    assert len({event["event_id"] for event in gateway.events}) == 1500
    assert all(event["started_at"] <= event["ended_at"] and len(event["event_id"]) == 36 for event in gateway.events)


def test_what_is_recorded_goes_out_by_itself(gateway: Gateway) -> None:
    with EventClient(gateway.url, "hr_x", interval_s=0.01) as client:
        client.record("file")
        with client._changed:  # it is woken when the last event has its receipt
            while len(client._queue):
                client._changed.wait(0.01)
    assert [event["kind"] for event in gateway.events] == ["file"]


def test_refused_events_are_told_and_hold_up_no_other(gateway: Gateway) -> None:
    gateway.refused, gateway.unfit = {"odd"}, {"broken"}
    with EventClient(gateway.url, "hr_x", interval_s=60) as client:
        for kind in ("a", "odd", "b", "broken", "c"):
            client.record(kind)
        outcome = client.flush(20)
    assert [event["kind"] for event in gateway.events] == ["a", "b", "c"]
    assert (outcome.num_stored, [receipt.status for receipt in outcome.refused]) == (3, ["refused", "refused"])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_the_gateway_cannot_take_now_waits(gateway: Gateway, status: int) -> None:
    gateway.status, gateway.retry_after = status, "0"
    client = EventClient(gateway.url, "hr_x", interval_s=60)
    client.record("a")
    with pytest.raises(NotSent, match="as told"):
        client._send()
    assert client.num_waiting == 1
    gateway.status = 200
    client.close()
    assert len(gateway.events) == 1


def test_a_refused_key_is_an_error_of_its_own_and_the_events_wait(gateway: Gateway, tmp_path: Path) -> None:
    gateway.status = 401
    client = EventClient(gateway.url, "hr_x", buffer=tmp_path, interval_s=60)
    client.record("a")
    with pytest.raises(Denied):
        client.close()
    gateway.status = 200
    with EventClient(gateway.url, "hr_new", buffer=tmp_path) as again:
        assert again.flush(20).num_stored == 1


def test_a_base_url_must_be_one() -> None:
    with pytest.raises(ValueError, match="base URL"):
        EventClient("127.0.0.1:8080", "hr_x")


async def test_the_async_client_does_the_same(gateway: Gateway, tmp_path: Path) -> None:
    async with AsyncEventClient(gateway.url + "/v1", "hr_x", buffer=tmp_path, interval_s=60) as client:
        await client.record("browser", a={"url": "about:blank"})
        assert client.num_waiting == 1
        assert (await client.flush(20)).num_stored == 1
    assert gateway.events[0]["a"] == {"url": "about:blank"} and client.outcome.num_duplicate == 0
