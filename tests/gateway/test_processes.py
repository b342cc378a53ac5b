"""Several gateway processes on one port, real ones: spread, limits, affinity, metrics, the death of one, the drain of all."""

import asyncio
import os
import re
import signal

import httpx
import psutil
import pytest

from dataproxy.capture.layout import list_segments
from tests.fakes.dataproxy import FakeDataProxy, key_row
from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import KEYS
from tests.gateway.sse import BODY, CHAT, Stream, eventually
from tests.gateway.test_process import halves, refused, started

PLAIN = {**BODY, "stream": False}
LIMITED = [
    key_row("hr_narrow", limits={"max_concurrency": 2}),
    key_row("hr_slow", limits={"requests_per_minute": 5}),
    key_row("hr_poor", limits={"budget_tokens": 40}),
]


@pytest.fixture
async def engine(run_dir):
    """A fake engine, and a fake data proxy whose keys have limits."""
    fake = FakeEngine()
    async with FakeDataProxy([*KEYS, *LIMITED]).serve(run_dir / "run" / "dataproxy.sock"), fake.serve() as fake.url:
        yield fake


def children(process):
    return [child.pid for child in psutil.Process(process.pid).children()]


async def everywhere(client, call, num_processes):
    """Calls over new connections until each process has served one; how many it took of each status."""
    before, statuses = await served_by(client), []
    async with asyncio.timeout(60):
        while len([p for p, n in (await served_by(client)).items() if n > before.get(p, 0)]) < num_processes:
            async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=20) as fresh:
                statuses.append((await call(fresh)).status_code)
    return statuses


async def served_by(client):
    """Calls with status 200 or 429 by process."""
    found = {}
    for line in (await client.get("/metrics")).text.splitlines():
        if match := re.match(r'headrace_gateway_calls_total\{status="(?:200|429)",process="(\d)"\} (\d+)', line):
            found[match[1]] = found.get(match[1], 0) + int(match[2])
    return found


async def test_both_serve_and_answer_for_each_other_in_metrics(engine, run_dir):
    async with started(run_dir, engine.url, PROCESSES=2) as (client, process):
        assert len(children(process)) == 2
        statuses = await everywhere(client, lambda fresh: fresh.post(CHAT, json=PLAIN), 2)
        assert set(statuses) == {200}
        assert sum((await served_by(client)).values()) == len(statuses)
        text = (await client.get("/metrics")).text
        engines = [line for line in text.splitlines() if line.startswith("headrace_engine_weight_version{")]
        assert engines == [f'headrace_engine_weight_version{{worker="{engine.url}",version="v000000"}} 1']
        assert len(re.findall(r"^headrace_gateway_waiting\{", text, re.MULTILINE)) == 2
        helps = [line for line in text.splitlines() if line.startswith("# HELP")]
        assert len(helps) == len(set(helps))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    assert len({files.writer for files in list_segments(run_dir / "journal")}) == 2  # each wrote a journal of its own
    assert len(halves(run_dir)) == 2 * len(statuses)


async def test_a_keys_concurrency_holds_over_all_processes(engine, run_dir):
    gate = asyncio.Event()
    engine.model.token_gate = gate.wait
    async with started(run_dir, engine.url, PROCESSES=2) as (client, _):
        client.headers["authorization"] = "Bearer hr_narrow"

        async def call():
            async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=30) as fresh:
                return (await fresh.post(CHAT, json=PLAIN)).status_code

        calls = [asyncio.create_task(call()) for _ in range(10)]
        await eventually(lambda: len(engine.model.running) == 2)
        async with asyncio.timeout(30):
            while await waiting(client) < 8:
                pass
        assert len(engine.model.running) == 2
        gate.set()
        assert await asyncio.gather(*calls) == [200] * 10


async def waiting(client):
    text = (await client.get("/metrics")).text
    return sum(int(n) for n in re.findall(r"headrace_gateway_waiting\{.*\} (\d+)", text))


async def test_rates_and_budgets_hold_over_all_processes(engine, run_dir):
    async with started(run_dir, engine.url, PROCESSES=2) as (client, _):
        for key, code in (("hr_slow", "rate_limit_exceeded"), ("hr_poor", "insufficient_quota")):
            client.headers["authorization"] = f"Bearer {key}"
            answers = []
            for _ in range(24):
                async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=20) as fresh:
                    answers.append(await fresh.post(CHAT, json=PLAIN))
            good = [answer.status_code for answer in answers].index(429)
            assert all(answer.status_code == 200 for answer in answers[:good])
            assert all(answer.json()["error"]["code"] == code for answer in answers[good:])
            used = [answer.json()["usage"]["total_tokens"] for answer in answers[:good]]
            assert good == 5 if key == "hr_slow" else sum(used[:-1]) < 40 <= sum(used)


async def test_every_process_sends_a_session_to_the_same_worker(engine, run_dir):
    other = FakeEngine()
    async with other.serve() as other_url:
        urls = f'["{engine.url}", "{other_url}"]'
        async with started(run_dir, engine.url, PROCESSES=2, ENGINE_URLS=urls) as (client, _):
            await eventually_ready(client, 2)
            for session in range(6):
                before = len(engine.calls), len(other.calls)
                headers = {"x-session-id": f"session-{session}"}
                num = len(await everywhere(client, lambda fresh, h=headers: fresh.post(CHAT, json=PLAIN, headers=h), 2))
                added = len(engine.calls) - before[0], len(other.calls) - before[1]
                assert sorted(added) == [0, num]


async def eventually_ready(client, num_workers):
    async with asyncio.timeout(30):
        while list((await client.get("/ready")).json()["workers"].values()) != ["ready"] * num_workers:
            pass


async def test_one_that_is_killed_is_started_again_and_no_connection_is_refused(engine, run_dir):
    async with started(run_dir, engine.url, PROCESSES=2) as (client, process):
        before = children(process)
        await everywhere(client, lambda fresh: fresh.post(CHAT, json=PLAIN), 2)
        os.kill(before[0], signal.SIGKILL)
        await eventually(lambda: before[0] not in children(process))
        for _ in range(12):  # those that wait at the dead one's socket are served by its successor
            async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=30) as fresh:
                assert (await fresh.post(CHAT, json=PLAIN)).status_code == 200
        assert len(children(process)) == 2 and set(children(process)) != set(before)
        assert "starting it again" in (run_dir / "gateway.log").read_text()


async def test_all_drain_when_they_are_told_to_stop(engine, run_dir):
    gate = asyncio.Event()
    async with started(run_dir, engine.url, PROCESSES=2) as (client, process):
        await everywhere(client, lambda fresh: fresh.post(CHAT, json=PLAIN), 2)
        engine.model.token_gate = gate.wait
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            begun = [asyncio.Event() for _ in range(6)]
            streams = [group.create_task(stream(client, one)) for one in begun]
            await asyncio.gather(*(one.wait() for one in begun))
            process.send_signal(signal.SIGTERM)
            await eventually(lambda: refused(client.base_url.port))
            gate.set()
        assert all(task.result().endswith(b"data: [DONE]\n\n") for task in streams)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    assert {half.delivery for half in halves(run_dir) if hasattr(half, "delivery")} == {"complete"}


async def stream(client, begun):
    fresh = httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=30)
    async with fresh, fresh.stream("POST", CHAT, json=BODY) as response:
        one = Stream(response)
        await one.until(b'"content":"h"')
        begun.set()
        return await one.rest()


async def test_none_is_left_when_the_parent_is_killed(engine, run_dir):
    async with started(run_dir, engine.url, PROCESSES=2) as (_, process):
        pids = children(process)
        process.kill()
        await process.wait()
        await eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
