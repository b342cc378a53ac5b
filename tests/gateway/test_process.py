"""The program itself, ``python -m gateway``: start, drain on SIGTERM, journal on disk, what it imports, what stops it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from dataproxy.capture.layout import list_segments
from dataproxy.capture.reader import SegmentReader
from dataproxy.keyfiles import KeyFiles
from tests.fakes.dataproxy import FakeDataProxy
from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import KEYS
from tests.gateway.sse import BODY, CHAT, Stream, eventually

HEAVY = (
    "sqlalchemy",
    "litellm",
    "torch",
    "presidio_analyzer",
    "httpx",
    "transformers",
    "sglang",
    "hyperscan",
    "numpy",
    "dataproxy.client",
)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def environment(run_dir, port, engine_url="http://127.0.0.1:1", **more):
    ours = {"DATA_DIR": run_dir, "CONFIG_DIR": run_dir / "config", "PORT": port, "ENGINE_URLS": json.dumps([engine_url]), **more}
    return {**os.environ, **{f"HEADRACE_GATEWAY_{name}": str(value) for name, value in ours.items()}}


@asynccontextmanager
async def started(run_dir, engine_url, **more) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.subprocess.Process]]:
    """A gateway process that is ready, and a client of it; it is killed if it is still there at the end."""
    port = free_port()
    log = (run_dir / "gateway.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", env=environment(run_dir, port, engine_url, **more), stderr=log
    )
    headers = {"authorization": "Bearer hr_acme"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20) as client:
        try:
            async with asyncio.timeout(60):
                while not await is_ready(client):
                    assert process.returncode is None, (run_dir / "gateway.log").read_text()
                    await asyncio.sleep(0.02)
            yield client, process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            log.close()


def refused(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def is_ready(client):
    try:
        return (await client.get("/ready")).status_code == 200
    except httpx.TransportError:
        return False


def halves(run_dir):
    private = KeyFiles(run_dir / "config").journal_private()
    return [one.half for files in list_segments(run_dir / "journal") for one in SegmentReader(files, private).read()]


@pytest.fixture
async def engine(run_dir):
    """A fake engine and a fake data proxy for a gateway process."""
    fake = FakeEngine()
    async with FakeDataProxy(KEYS).serve(run_dir / "run" / "dataproxy.sock"), fake.serve() as fake.url:
        yield fake


async def test_a_running_stream_ends_and_is_durable_when_the_gateway_is_told_to_stop(engine, run_dir):
    gate = asyncio.Event()
    engine.model.token_gate = gate.wait
    async with started(run_dir, engine.url) as (client, process):
        async with client.stream("POST", CHAT, json=BODY) as response:
            stream = Stream(response)
            await stream.until(b'"content":"h"')
            process.send_signal(signal.SIGTERM)
            await eventually(lambda: refused(client.base_url.port))  # no new connections once it drains
            gate.set()
            assert (await stream.rest()).endswith(b"data: [DONE]\n\n")
        assert await asyncio.wait_for(process.wait(), 20) == 0
    request, response_half = halves(run_dir)
    assert response_half.delivery == "complete"
    assert response_half.body == stream.text
    assert json.loads(response_half.record)["rid"] == request.completion_id
    log = (run_dir / "gateway.log").read_text()
    assert "hello" not in log and "hr_" not in log
    assert all(json.loads(line)["message"] for line in log.splitlines())


async def test_what_an_agent_received_survives_kill_9_at_once(engine, run_dir):
    async with started(run_dir, engine.url) as (client, process):
        answers = await asyncio.gather(*[client.post(CHAT, json={**BODY, "stream": n % 2 == 0}) for n in range(16)])
        process.kill()
        await process.wait()
    received = {answer.headers["x-headrace-event"]: answer.content for answer in answers}
    kept = {half.event_id: half.body for half in halves(run_dir) if hasattr(half, "delivery")}
    assert kept == received


async def test_a_stream_that_outlasts_the_drain_is_recorded_as_aborted(engine, run_dir):
    engine.model.token_gate = asyncio.Event().wait
    async with (
        started(run_dir, engine.url, DRAIN_TIMEOUT_S=1) as (client, process),
        client.stream("POST", CHAT, json=BODY) as response,
    ):
        stream = Stream(response)
        await stream.until(b'"content":"h"')
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
        with pytest.raises(httpx.RemoteProtocolError):
            await stream.rest()
    assert halves(run_dir)[1].delivery == "aborted"
    await eventually(lambda: engine.model.aborted)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"HEADRACE_GATEWAY_PROT": "1"}, "HEADRACE_GATEWAY_PROT"),
        ({"HEADRACE_GATEWAY_PORT": "x"}, "port"),
        ({"HEADRACE_GATEWAY_CONFIG_DIR": "/nowhere"}, "headrace up"),
        ({"HEADRACE_GATEWAY_ENGINE_URLS": '["ftp://x"]'}, "ftp://x"),
        ({"HEADRACE_GATEWAY_CONFIG_FILE": "/nowhere.toml"}, "/nowhere.toml"),
    ],
)
def test_a_start_that_cannot_succeed_says_why_and_exits_1(run_dir, change, sentence):
    env = {**environment(run_dir, 0), **change}
    done = subprocess.run([sys.executable, "-m", "gateway"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_ends_the_start(run_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = environment(run_dir, taken.getsockname()[1])
        done = subprocess.run([sys.executable, "-m", "gateway"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr


def test_the_import_stays_light():
    code = "import sys, gateway.__main__; print([n for n in sys.argv[1:] if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
