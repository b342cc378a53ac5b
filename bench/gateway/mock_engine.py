"""The mock engine on raw asyncio, for machines without a compiler: same arguments, routes and answers as ``native/mock_engine.c``.

``python -m bench.gateway.mock_engine PORT``; 0 takes a free port, which is printed.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from typing import Any

import uvloop

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" * 4096
_OUTPUT_TOKENS = 100
_CARD = {"id": "tiny", "object": "model", "created": 1767225600, "owned_by": "sglang", "root": "tiny", "parent": None}
_STATE = {"engine": {"name": "sglang", "version": "0.5.23"}, "missing_hooks": [], "weight_version": "default", "dtype": "bfloat16"}
_COUNTS = {"paused": False, "update": "", "num_in_flight": 0, "num_aborted": 0, "num_pauses_expired": 0}
_LOAD = {"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0, "num_total_reqs": 0, "num_tokens": 0, "token_usage": 0.0}
_INFO = {"model_path": "tiny", "served_model_name": "tiny", "is_generation": True, "weight_version": "default", "version": "0.5.23"}
_ROUTES: dict[str, object] = {
    "/v1/models": {"object": "list", "data": [{**_CARD, "max_model_len": 131072}]},
    "/v1/loads": {"version": "0.5.23", "loads": [{**_LOAD, "max_running_requests": 256}]},
    "/headrace/engine": {**_STATE, **_COUNTS},
    **dict.fromkeys(("/server_info", "/get_server_info", "/model_info", "/get_model_info"), _INFO),
}
served: Counter[str] = Counter(requests=0, streams=0, events=0, finished=0, lost=0)


class Engine(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None and not self._task.done():
            served["lost"] += 1
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if separator and len(body) >= length:
            self._buffer = body[length:]
            self._serve(head, body[:length])

    def _serve(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ")[1].partition(b"?")[0].decode()
        if path != "/v1/chat/completions":
            told = {**served, "cpu_s": time.process_time()} if path == "/mock/stats" else _ROUTES.get(path, {"success": True})
            return self._whole(json.dumps(told).encode())
        served["requests"] += 1
        found = re.search(rb"\r\nx-headrace-rid: ([^\r]+)", head)
        rid = found[1] if found else b"chatcmpl-00000000000000000000000000000000"
        record = _record(rid, len(body)) if b"\r\nx-headrace-record:" in head else b""
        if re.search(rb'"stream": ?true', body):
            self._task = asyncio.ensure_future(self._stream(rid, record, _number(b"max_tokens", body), _number(b"seed", body)))
            return None
        served["finished"] += 1
        message = b'{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}' % (b"x" * 300)
        answer = b'{"id":"%s","object":"chat.completion","created":1767225600,"model":"tiny","choices":[%s]' % (rid, message)
        return self._whole(answer + (b',"headrace_record":' + record if record else b"") + b"}")

    def _whole(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)

    async def _stream(self, rid: bytes, record: bytes, num_events: int, gap_us: int) -> None:
        phase_us, gap = served["streams"] * 0.6180339887498949 % 1 * gap_us, gap_us / 1e6
        served["streams"] += 1
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(num_events):
            if number:  # a stream keeps to its own phase of the gap, so that none fall into step
                await asyncio.sleep(gap - (time.monotonic() - phase_us / 1e6) % gap)
            self._event(rid, b'"content":" word"', b"null")
            served["events"] += 1
        if record:
            self._chunk(b"event: headrace.record\ndata: " + record + b"\n\n")
        self._event(rid, b"", b'"stop"')
        self._chunk(b"data: [DONE]\n\n")
        self.transport.write(b"0\r\n\r\n")
        served["finished"] += 1

    def _event(self, rid: bytes, delta: bytes, finish: bytes) -> None:
        choice = b'{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}' % (delta, finish)
        self._chunk(b'data: {"id":"%s","object":"chat.completion.chunk","model":"tiny","choices":[%s]}\n\n' % (rid, choice))

    def _chunk(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))


def _record(rid: bytes, prompt_bytes: int) -> bytes:
    ids, output = (_ALPHABET[: (n * 4 + 2) // 3 * 4] for n in (prompt_bytes // 4 + 1, _OUTPUT_TOKENS))
    choice = b'{"index":0,"output_ids":"%s","logprobs":"%s","versions":[["default",0,%d]],"finish_reason":"stop"}'
    start = b'{"v":1,"rid":"%s","model":"tiny","engine":{"name":"sglang","version":"0.5.23"},"prompt_ids":"%s","sampling":{},' % (
        rid,
        ids,
    )
    return start + b'"choices":[%s]}' % (choice % (output, output, _OUTPUT_TOKENS))


def _number(name: bytes, body: bytes) -> int:
    found = re.search(rb'"%s": ?(\d+)' % name, body)
    return int(found[1]) if found else 100


async def serve(port: int) -> None:
    """Listen for ever."""
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
