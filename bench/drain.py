"""Measures capture: what a recorded exchange costs the gateway, and how fast the drain makes events of them.

``python -m bench.drain [--quick]`` ends with one JSON line, kept in ``bench/results/drain.json``:

- ``events_s_core_sqlite``: exchanges a second of the data proxy's CPU time, with everything on: decrypt, redact, chain, store in
  SQLite with full sync. ``events_s_sqlite`` is by the clock. Beside them the same without redaction, and an agent of twelve turns.
- ``events_s_postgres``: by the clock, into a PostgreSQL of its own on this machine; null without a server.
- ``seal_us``: CPU µs that a gateway process spends on an exchange in ``Journal.begin`` and ``finish``, its committer's included.
- ``final_frame_p99_ms``: how long the end of an answer waits for its group commit at 500 exchanges a second.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from bench.drain_traffic import MASK_ID, TOKENS, Exchange, fill, pour, talk, work
from dataproxy.__main__ import spare_the_collector
from dataproxy.capture import Journal
from dataproxy.capture.sealing import generate_keypair
from dataproxy.drain.redaction import Redactors
from dataproxy.keyfiles import ensure
from dataproxy.redact import Exchange as Redactable
from dataproxy.redact import RedactedExchange, RedactedText
from dataproxy.services import TenantRedactors, build_services
from dataproxy.settings import Settings
from dataproxy.store.database import Database
from tests.postgres import HOW_TO_GET_IT, find_binaries, temporary_postgres

RESULT = Path(__file__).parent / "results" / "drain.json"
RATE_S = 500.0


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    quick = parser.parse_args().quick
    talks, works, ends = (400, 50, 2000) if quick else (2000, 250, 10_000)
    spare_the_collector()
    seal_us = seal_cost_us(2000 if quick else 10_000)
    waits_ms = [1e3 * wait for wait in final_waits(ends)]
    full = drained(talk, talks, real_redactors())
    bare = drained(talk, talks, NoRedactors())
    agent = drained(work, works, real_redactors())
    with temporary_postgres() if find_binaries() else nullcontext() as server:
        database = Database(server.new_database().urls) if server is not None else None
        postgres = drained(talk, talks, real_redactors(), database) if database is not None else None
    result = {
        "bench": "drain",
        "cores": os.cpu_count(),
        "events_s_core_sqlite": full["events_s_core"],
        "events_s_sqlite": full["events_s"],
        "events_s_postgres": postgres["events_s"] if postgres else None,
        "seal_us": round(seal_us, 1),
        "final_frame_p99_ms": round(float(np.percentile(waits_ms, 99)), 2),
        "final_frame_p50_ms": round(float(np.percentile(waits_ms, 50)), 2),
        "talks": full,
        "without_redaction": bare,
        "agent_of_12_turns": agent,
        "postgres": postgres or HOW_TO_GET_IT,
        "final_frame": {"n": ends, "exchanges_s": RATE_S},
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


class NoRedactors:
    """A redactor that changes nothing, to see what all the rest costs."""

    def of(self, tenant: str) -> "NoRedactors":
        """Itself."""
        return self

    def redact_exchange(self, exchange: Redactable) -> RedactedExchange:
        """As it is."""
        prompt = exchange.prompt_ids if exchange.prompt_ids is not None else np.zeros(0, np.int32)
        altered = [np.zeros(len(ids), np.uint8) for ids in exchange.output_ids]
        flags, outputs = np.zeros(len(prompt), np.uint8), exchange.output_ids
        return RedactedExchange(exchange.request, exchange.response, prompt, outputs, exchange.strings, [], flags, altered)

    def redact_text(self, text: str) -> RedactedText:
        """As it is."""
        return RedactedText(text, [])


def real_redactors() -> Redactors:
    """As the data proxy makes them, with nothing in their caches."""
    return TenantRedactors(bytes(32), MASK_ID, TOKENS)


def drained(
    conversations: Callable[[int], Iterator[Exchange]], count: int, redactors: Redactors, database: Database | None = None
) -> dict[str, float]:
    """Fill a journal with ``count`` conversations and drain it."""
    with tempfile.TemporaryDirectory() as directory:
        files = ensure(Path(directory) / "config")
        settings = Settings(data_dir=Path(directory) / "data", config_dir=files.directory)
        services = build_services(settings, files, redactors, database=database)
        journal = Journal.open(settings.data_dir / "journal", files.journal_public(), "relaxed")
        asyncio.run(fill(journal, conversations, range(count, count + 2)))
        services.drain.run_once()  # rules are compiled and statements prepared by now
        num, size = asyncio.run(fill(journal, conversations, range(count)))
        journal.close()
        wall, cpu, events = time.perf_counter(), time.process_time(), 0
        while batch := services.drain.run_once():
            events += batch
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        services.database.close()
        assert events == num
        return {"events_s_core": round(num / cpu), "events_s": round(num / wall), "n": num, "bytes_per_exchange": size // num}


def seal_cost_us(count: int) -> float:
    """CPU µs of an exchange, 32 of them under way at a time as under load; what the loop itself takes is subtracted."""

    class Nothing:
        def begin(self, half: object) -> None:
            pass

        async def finish(self, half: object) -> None:
            await asyncio.sleep(0)

    pairs = [pair for number in range(count // 3 + 1) for pair in talk(number)][:count]

    async def lanes(journal: Journal | Nothing) -> float:
        queue = iter(pairs)

        async def lane() -> None:
            for asked, got in queue:
                journal.begin(asked)
                await asyncio.sleep(0)
                await journal.finish(got)

        start = time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(32):
                group.create_task(lane())
        return time.process_time() - start

    with tempfile.TemporaryDirectory() as directory:
        journal = Journal.open(Path(directory), generate_keypair()[1])
        with_it = asyncio.run(lanes(journal))
        journal.close()
    return (with_it - asyncio.run(lanes(Nothing()))) / count * 1e6


def final_waits(count: int) -> list[float]:
    """Seconds that ends of answers waited for their commit."""
    pairs = [pair for number in range(count // 3 + 1) for pair in talk(number)][:count]
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal.open(Path(directory), generate_keypair()[1])
        waits = asyncio.run(pour(journal, pairs, RATE_S))
        journal.close()
    return waits


if __name__ == "__main__":
    main()
