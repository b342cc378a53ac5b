"""A client under load that keeps its own file of what it received: the oracle of the durability tests.

Runs as a process of its own and knows only base URL and key. Every answer received in full (JSON body whole, or stream up to
``[DONE]``) becomes one line, flushed to disk before the next call; so does every reward that was acknowledged. Broken calls are
counted and made anew, never written down. Ends on SIGTERM.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import httpx

LENGTHS = (4, 8, 16, 24)


class Oracle:
    """Appends lines durably: what is in here, the client had in its hands."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, line: dict[str, Any]) -> None:
        os.write(self._fd, (json.dumps(line) + "\n").encode())
        os.fdatasync(self._fd)


async def receive(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any] | None:
    """One call; the answer if it came in full, None if it broke off or was refused."""
    try:
        if not body["stream"]:
            answer = await client.post("/chat/completions", json=body)
            if answer.status_code != 200:
                return None
            choice = answer.json()["choices"][0]
            return {"id": answer.json()["id"], "text": choice["message"]["content"], "finish": choice["finish_reason"]}
        return await receive_stream(client, body)
    except (httpx.TransportError, ConnectionError):
        return None


async def receive_stream(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any] | None:
    """The same for a stream: in full means that ``[DONE]`` came."""
    text, completion_id, finish = "", "", None
    async with client.stream("POST", "/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            return None
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                return {"id": completion_id, "text": text, "finish": finish}
            if not line.startswith("data: "):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                return None
            completion_id = chunk["id"]
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
                finish = choice["finish_reason"] or finish
    return None


async def reward(client: httpx.AsyncClient, completion_id: str, value: float) -> bool:
    """Post a reward; True when it was acknowledged (stored or pending)."""
    body = {"target": completion_id, "name": "score", "value": value, "source": "test", "idempotency_key": completion_id}
    try:
        return (await client.post("/feedback", json=body)).status_code in {200, 202}
    except (httpx.TransportError, ConnectionError):
        return False


async def worker(
    index: int, client: httpx.AsyncClient, model: str, oracle: Oracle, counts: dict[str, int], pause_s: float = 0.0
) -> None:
    """Calls one after another, ``pause_s`` apart; every second one streams; each answer is rewarded at once."""
    random_ = random.Random(index)
    for number in itertools.count():
        body = {
            "model": model,
            "stream": number % 2 == 0,
            "temperature": 1.0,
            "max_tokens": random_.choice(LENGTHS),
            "messages": [{"role": "user", "content": f"call {index}-{number}"}],
        }
        answer = await receive(client, body)
        if answer is None:
            counts["broken"] += 1
            await asyncio.sleep(0.05)
            continue
        counts["answers"] += 1
        oracle.write({"kind": "answer", "call": f"{index}-{number}", **answer})
        value = random_.random()
        if pause_s:
            await asyncio.sleep(pause_s)
        if await reward(client, answer["id"], value):
            oracle.write({"kind": "reward", "id": answer["id"], "value": value})


async def run(base_url: str, key: str, model: str, path: Path, concurrency: int, pause_s: float = 0.0) -> dict[str, int]:
    """Load until SIGTERM; the counts of whole and broken calls."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    counts = {"answers": 0, "broken": 0}
    oracle = Oracle(path)
    async with httpx.AsyncClient(
        base_url=base_url, headers={"authorization": f"Bearer {key}"}, timeout=60, limits=httpx.Limits(max_connections=None)
    ) as client:
        tasks = [asyncio.create_task(worker(i, client, model, oracle, counts, pause_s)) for i in range(concurrency)]
        stop = asyncio.create_task(stopped.wait())
        await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--pause-s", type=float, default=0.0)
    given = parser.parse_args()
    counted = asyncio.run(run(given.base_url, given.key, given.model, given.out, given.concurrency, given.pause_s))
    print(json.dumps(counted))
