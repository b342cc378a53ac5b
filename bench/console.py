"""Measures the console: the first page of trajectories and its filters, over a store with many events.

``python -m bench.console [--quick] [--events N]`` fills a SQLite store for at most two minutes (``--quick``; else until it has N
events), asks each page seven times through the whole app as a reviewer would, prints one JSON line last and keeps it in
``bench/results/console.json``. ``first_page_ms`` and ``filter_ms`` are medians, the latter over all filters; each filter's own
median stands beside them. ``cpu_ms`` is this process's CPU time for the same, which a busy machine changes less. Rows are written
without their leaves: no page that is measured reads the log.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from dataproxy.api.app import create_app
from dataproxy.client.types import NewKey
from dataproxy.keyfiles import ensure
from dataproxy.redact import TokenBytes
from dataproxy.services import Services, TenantRedactors, build_services
from dataproxy.settings import Settings
from dataproxy.store.compression import compress
from dataproxy.store.dialect import insert_new
from dataproxy.store.keys import issue_key
from dataproxy.store.schema import content, content_span, eligibility, event, redaction_count, reward, trajectory

RESULT = Path(__file__).parent / "results" / "console.json"
_TURNS, _BATCH, _QUICK_S = 4, 1000, 115.0
_AGENTS = [f"agent-{i:02d}" for i in range(20)]
_REASONS = ["eligible"] * 8 + ["no_consent", "altered"]
_START_US = 1_700_000_000_000_000
_Ms = tuple[float, float]
"""Medians of wall and CPU time."""
_FILTERS = {
    "agent": "agent=agent-07",
    "session": "session=session-77",
    "since": "since=2023-11-15",
    "version": "version=v000017",
    "rewarded": "rewarded=yes",
    "reward": "min_reward=0.9",
    "model": "model=rare-model",
    "reason": "reason=altered",
    "outcome": "outcome=error",
    "kind": "kind=CARD",
    "text": "text=number+4711",
    "nothing": "text=no-such-word",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--events", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        files = ensure(Path(directory) / "config")
        settings = Settings(data_dir=Path(directory) / "data", config_dir=files.directory)
        table = TokenBytes([bytes([i]) for i in range(256)], "bench")
        services = build_services(settings, files, TenantRedactors(bytes(32), 16, table))
        began = time.perf_counter()
        num_events = _fill(services, asked.events, began + _QUICK_S if asked.quick else None)
        fill_s = time.perf_counter() - began
        first, filters = asyncio.run(_ask(services))
        services.database.close()
    result = {
        "bench": "console",
        "events": num_events,
        "fill_s": round(fill_s, 1),
        "filters_ms": {name: wall for name, (wall, _) in filters.items()},
        "cpu_ms": {"first_page": first[1], "filter": round(statistics.median(cpu for _, cpu in filters.values()), 1)},
        "first_page_ms": first[0],
        "filter_ms": round(statistics.median(wall for wall, _ in filters.values()), 1),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _fill(services: Services, num_events: int, until: float | None) -> int:
    """Write trajectories of four turns until there are ``num_events``, or it is ``until``; gives the number of events."""
    draw, made = random.Random(6), 0
    while made < num_events and (until is None or time.perf_counter() < until):
        first = made // _TURNS
        tables = (trajectory, content, event, content_span, eligibility, reward)
        rows: dict[Any, list[dict[str, Any]]] = {table: [] for table in tables}
        for number in range(first, first + min(_BATCH, (num_events - made) // _TURNS or 1)):
            for table, row in _conversation(draw, number):
                rows[table].append(row)
        with services.database.write() as connection:
            for table, found in rows.items():
                if found:
                    insert_new(connection, table, found)
        made += len(rows[event])
    with services.database.write() as connection:
        insert_new(connection, redaction_count, [{"tenant": "acme", "kind": kind, "num": 1} for kind in ("CARD", "EMAIL")])
    return made


def _conversation(draw: random.Random, number: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    name, agent, start = f"tr-{number:032x}", draw.choice(_AGENTS), _START_US + number * 500_000
    whose = {"tenant": "acme", "trajectory_id": name, "agent": agent, "session_id": f"session-{number // 3}"}
    model = "rare-model" if number % 997 == 0 else "tiny"
    rewarded = draw.random() < 0.5
    yield (
        trajectory,
        whose
        | {
            "started_us": start,
            "last_us": start + 9_000,
            "num_events": _TURNS,
            "num_eligible": 3,
            "num_rewards": int(rewarded),
            "times_trained": 0,
            "closed": True,
            "last_version": number % 200,
            "newest_version": number % 200,
        },
    )
    said = []
    for turn in range(_TURNS):
        asked = f"Order {number} turn {turn}: where is number {draw.randrange(10_000)}, please, <EMAIL_1>?"
        message = {"role": "user", "content": asked}
        event_id = f"{number:030x}{turn:02x}"
        digest = (number * _TURNS + turn).to_bytes(16, "big")
        said.append(digest.hex())
        yield content, {"tenant": "acme", "digest": digest, "data": compress(msgspec.json.encode(message)), "owner": event_id}
        if turn == 0:
            kind = "CARD" if number % 500 == 0 else "EMAIL"
            place = {"detector": "pattern", "score": 1.0, "path": "/content", "start": 0, "end": 9, "surrogate": "<EMAIL_1>"}
            yield content_span, {"tenant": "acme", "digest": digest, "ordinal": 0, "kind": kind} | place
        how = {"model": model, "worker": "w1", "versions": [[["v000001", 0, 9]]]}
        body = {"o": {"messages": said[:]}, "y": {"status": 200}, "m": how}
        yield (
            event,
            whose
            | {
                "event_id": event_id,
                "position": number * _TURNS + turn + 1,
                "kind": "model_call",
                "subject": "",
                "seq": turn,
                "parent_id": None,
                "started_us": start + turn * 1000,
                "ended_us": start + turn * 1000 + 900,
                "boundary": "gateway",
                "model": model,
                "status": 500 if number % 300 == 0 else 200,
                "delivery": "complete",
                "finish_reason": "stop",
                "request_digest": None,
                "body": compress(msgspec.json.encode(body)),
            },
        )
        reason = draw.choice(_REASONS)
        yield (
            eligibility,
            {
                "tenant": "acme",
                "event_id": event_id,
                "choice": 0,
                "eligible": reason == "eligible",
                "reason": reason,
                "policy": "p",
                "decided_us": start,
            },
        )
    if rewarded:
        yield (
            reward,
            {
                "tenant": "acme",
                "reward_id": f"rw-{number:032x}",
                "target_kind": "trajectory",
                "target_id": name,
                "trajectory_id": name,
                "name": "reward",
                "value": round(draw.random(), 2),
                "label": None,
                "correction": None,
                "source": "user",
                "explanation": None,
                "idempotency_key": None,
                "supersedes": None,
                "key_id": "k",
                "received_us": start + 10_000,
            },
        )


async def _ask(services: Services, times: int = 7) -> tuple[_Ms, dict[str, _Ms]]:
    """Of the first page, and of each filter."""
    with services.database.write() as connection:
        key = issue_key(connection, NewKey("acme", "", "reviewer"), services.now_us()).key
        services.keys.load(connection)
    transport = httpx.ASGITransport(create_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://console", follow_redirects=True, timeout=120) as client:
        form = (await client.get("/console/sign-in")).text
        token = form.split('name="csrf" value="')[1].split('"')[0]
        await client.post("/console/sign-in", data={"csrf": token, "key": key, "purpose": "a measurement"})

        async def median_ms(query: str) -> _Ms:
            took, used = [], []
            for _ in range(times):
                began, cpu = time.perf_counter(), time.process_time()
                answer = await client.get(f"/console/trajectories?{query}")
                took.append((time.perf_counter() - began) * 1000)
                used.append((time.process_time() - cpu) * 1000)
                assert answer.status_code == 200 and "Trajectories" in answer.text
            return round(statistics.median(took), 1), round(statistics.median(used), 1)

        first = await median_ms("")
        return first, {name: await median_ms(query) for name, query in _FILTERS.items()}


if __name__ == "__main__":
    main()
