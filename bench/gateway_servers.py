"""What stands around the measured gateway: a mock engine and a key table that cost little, and a plain gateway to compare with.

``python -m bench.gateway_servers engine PORT | keys SOCKET KEY… | plain PORT ENGINE_PORT``. The plain gateway is what FastAPI and
httpx give in twenty lines: it relays, and does none of the gateway's duties.
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

RECORD = b'{"v":1,"rid":"chatcmpl-0","prompt_ids":"%s","choices":[{"output_ids":"%s","logprobs":"%s"}]}' % (
    b"A" * 400,
    b"B" * 300,
    b"C" * 300,
)
ANSWER = b'{"id":"chatcmpl-0","object":"chat.completion","choices":[{"message":{"content":"%s"}}]' % (b"x" * 450)
NUM_EVENTS = 100
EVENT = b'data: {"id":"chatcmpl-0","choices":[{"index":0,"delta":{"role":null,"content":"word"},"finish_reason":null}]}\n\n'
_EVENT_GAP_S = 0.005


class Engine(asyncio.Protocol):
    """Answers every request from canned bytes; a body with ``"stream":true`` gets NUM_EVENTS events, one each 5 ms."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if len(body) < length:
            return
        self._buffer = body[length:]
        if head.startswith(b"GET"):
            self._json(b'{"object":"list","data":[{"id":"tiny"}]}')
        elif b'"stream":true' in body[:length]:
            self._task = asyncio.ensure_future(self._stream(b"x-headrace-record" in head))
        else:
            self._json(ANSWER + (b',"headrace_record":' + RECORD if b"x-headrace-record" in head else b"") + b"}")

    def _json(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)

    async def _stream(self, record: bool) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(NUM_EVENTS):
            self._chunk(EVENT)
            await asyncio.sleep(_EVENT_GAP_S)
        if record:
            self._chunk(b"event: headrace.record\ndata: " + RECORD + b"\n\n")
        self._chunk(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))


async def serve_engine(port: int) -> None:
    """Listen for ever."""
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port)
    await server.serve_forever()


async def serve_keys(socket: str, keys: list[str]) -> None:
    """The key table on a Unix socket: the first key records, the others do not."""
    fields = {"tenant": "bench", "agent": "bench", "role": "agent", "models": [], "revoked": False, "expires_us": None}
    hashes = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    rows = [{**fields, "key_id": f"k{i}", "key_hash": digest, "record": i == 0} for i, digest in enumerate(hashes)]
    app = FastAPI()

    @app.get("/v1/keys/table")
    async def table() -> Any:
        return Response(json.dumps(rows), media_type="application/json")

    await uvicorn.Server(uvicorn.Config(app, uds=socket, access_log=False, log_level="error")).serve()


async def serve_plain(port: int, engine_port: int) -> None:
    """The plain gateway."""
    app = FastAPI()
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{engine_port}", timeout=60, limits=httpx.Limits(max_connections=None))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        if body.get("stream"):
            upstream = await client.send(client.build_request("POST", "/v1/chat/completions", json=body), stream=True)

            async def events() -> AsyncIterator[bytes]:
                async for piece in upstream.aiter_raw():
                    yield piece
                await upstream.aclose()

            return StreamingResponse(events(), media_type="text/event-stream")
        answer = await client.post("/v1/chat/completions", json=body)
        return Response(answer.content, media_type="application/json")

    await uvicorn.Server(uvicorn.Config(app, port=port, access_log=False, log_level="error")).serve()


def main(role: str, *arguments: str) -> None:
    """Run one of the servers."""
    if role == "engine":
        uvloop.run(serve_engine(int(arguments[0])))
    elif role == "keys":
        uvloop.run(serve_keys(arguments[0], list(arguments[1:])))
    else:
        uvloop.run(serve_plain(int(arguments[0]), int(arguments[1])))


if __name__ == "__main__":
    main(*sys.argv[1:])
