"""No line of the log, at its lowest level and whatever goes wrong, holds what agents send or get: text, keys, header values."""

import asyncio
import hashlib
import json
import logging

import httpx
import pytest

from gateway.logs import JsonFormatter
from gateway.settings import load
from tests.fakes.dataproxy import FakeDataProxy
from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script
from tests.gateway.conftest import KEYS
from tests.gateway.sse import BODY, CHAT, Stream, eventually
from tests.gateway.test_process import started

CANARY = "xyzzy-canary"
KEY = f"hr_{CANARY}"
HEADERS = {"x-session-id": f"{CANARY}-s", "user-agent": CANARY, "traceparent": CANARY, "x-request-id": CANARY, "cookie": CANARY}
SAID = {**BODY, "messages": [{"role": "user", "content": CANARY}], "metadata": {"session_id": CANARY}, "user": CANARY}
PLAIN = {**SAID, "stream": False}
RAW = [b"{" + CANARY.encode(), b'"' + CANARY.encode() + b'"', b'{"model":"' + CANARY.encode() + b'"}', CANARY.encode() + b"\xff"]


async def post(client, path, **kwargs):
    try:
        return await client.post(path, **kwargs)
    except httpx.TransportError:
        return None


async def misbehave(client, engine):
    """Everything that may go wrong with a call, each time with the canary in it."""
    for path in (CHAT, "/v1/messages", "/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/feedback", f"/s/{CANARY}{CHAT}"):
        for raw in RAW:
            await post(client, path, content=raw)
        await post(client, path, content=CANARY.encode(), headers={"content-encoding": CANARY})
        await post(client, path, content=CANARY.encode(), headers={"content-encoding": "gzip"})
        await post(client, path, json=PLAIN, headers={"authorization": f"Bearer {CANARY}"})
        await post(client, path, json={**PLAIN, "temperature": CANARY})
    for method, path in (("GET", f"/{CANARY}"), ("PUT", CHAT), ("GET", f"/v1/models/{CANARY}"), ("GET", f"/v1/responses/{CANARY}")):
        await client.request(method, path)
    await client.post("/v1/workers", json={"url": f"http://{CANARY}"})
    text = f'data: {{"choices":[{{"delta":{{"content":"{CANARY}"}}}}]}}\n\n'.encode()
    for script in (
        Script([text], cut=True),
        Script([CANARY.encode()], status=500, content_type="text/plain", headers={"x-engine": CANARY}),
        Script([text, b"event: headrace.record\ndata: {" + CANARY.encode() + b"\n\n", b"data: [DONE]\n\n"]),
        Script([b'{"a":"' + CANARY.encode() + b'","headrace_record":' + CANARY.encode()], content_type="application/json"),
    ):
        engine.script = script
        for body in (SAID, PLAIN):
            await post(client, CHAT, json=body)
    engine.script = None
    await leave_in_the_middle(client, engine)
    await garbage(client)


async def leave_in_the_middle(client, engine):
    engine.model.token_gate = asyncio.Event().wait
    async with client.stream("POST", CHAT, json=SAID) as response:
        await Stream(response).until(b"data:")
    await eventually(lambda: engine.model.aborted)
    engine.model.token_gate = None


async def garbage(client):
    for data in (f"{CANARY}\r\n\r\n", f"GET /{CANARY} HTTP/9\r\n{CANARY}\r\n\r\n", f"POST {CHAT} HTTP/1.1\r\n{CANARY}: \0\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(data.encode())
        await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()


@pytest.mark.slow
async def test_nothing_that_agents_send_or_get_is_in_the_log(run_dir):
    engine = FakeEngine()
    key = next(row for row in KEYS if row["key_id"] == "id-hr_acme")
    mine = {**key, "key_hash": hashlib.sha256(KEY.encode()).hexdigest(), "key_id": "k1"}
    dataproxy = FakeDataProxy([*KEYS, mine])
    async with (
        dataproxy.serve(run_dir / "run" / "dataproxy.sock"),
        engine.serve() as url,
        started(run_dir, url, LOG_LEVEL="debug") as (client, process),
    ):
        client.headers.update({"authorization": f"Bearer {KEY}", **HEADERS})
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200
        await misbehave(client, engine)
        dataproxy.keys[0] = {"key_hash": CANARY}  # a table that cannot be read
        seen = len(dataproxy.table_calls)
        await eventually(lambda: len(dataproxy.table_calls) > seen + 1)
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)
    lines = (run_dir / "gateway.log").read_text().splitlines()
    assert len(lines) > 10 and any(json.loads(line)["level"] == "WARNING" for line in lines)
    assert [line for line in lines if CANARY in line.lower()] == []
    assert all(json.loads(line)["message"] for line in lines)


def test_an_exceptions_text_is_left_out_and_its_way_is_kept():
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as error:
            raise ValueError(CANARY) from error
    except ValueError as error:
        record = logging.LogRecord("gateway", logging.ERROR, __file__, 1, "it failed", (), (ValueError, error, error.__traceback__))
    line = JsonFormatter("3").format(record)
    assert CANARY not in line
    told = json.loads(line)
    assert (told["error"], told["process"]) == ("ValueError from KeyError", "3")
    assert any("test_logs.py" in frame for frame in told["frames"])


@pytest.mark.parametrize("level", ["TRACE", "5", "NOTSET", "0"])
def test_no_level_below_debug_can_be_set(level, monkeypatch):
    monkeypatch.setenv("HEADRACE_GATEWAY_LOG_LEVEL", level)
    with pytest.raises(ValueError, match="log_level"):
        load([], {})
