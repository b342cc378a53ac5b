"""Measures the console: the first page of trajectories, its filters, and other pages, over a store with many events and their log.

``python -m bench.console [--quick] [--events N] [--verify] [--keep DIR]`` fills SQLite and, where there is a server (Debian's
``postgresql``), PostgreSQL with the same million events, asks each page seven times (``--quick``; else 21) through the whole app
as a reviewer would, prints one JSON line last and keeps it in ``bench/results/console.json``. ``first_page_ms`` and ``filter_ms``
are medians, the latter over all filters; each filter's and each other page's own median stands beside them. ``cpu_ms`` is this
process's CPU time for the same, which a busy machine changes less, ``load`` the machine's load of the last five minutes.
``--verify``: SQLite's log is verified at the end, and the first page asked meanwhile. ``--keep DIR``: the stores stay there for
the next run.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import SecretStr
from rich.console import Console
from rich.progress import track

from bench.console_store import TENANT, IntoPostgres, IntoSqlite, Target, fill
from dataproxy.api.app import create_app
from dataproxy.client.types import NewKey
from dataproxy.keyfiles import ensure
from dataproxy.redact import TokenBytes
from dataproxy.services import Services, TenantRedactors, build_services
from dataproxy.settings import Settings
from dataproxy.store.keys import OPERATOR, issue_key
from dataproxy.store.postgres import PostgresUrls
from tests.postgres import PostgresDatabase, find_binaries, kept_postgres, temporary_postgres

RESULT = Path(__file__).parent / "results" / "console.json"
_Ms = tuple[float, float]
"""Medians of wall and CPU time."""
FILTERS = {
    "agent": "agent=agent-07",
    "session": "session=session-77",
    "since": "since=2023-11-15",
    "version": "version=v000017",
    "rewarded": "rewarded=yes",
    "reward": "min_reward=0.9",
    "model": "model=rare-model",
    "eligible": "eligible=yes",
    "reason": "reason=altered",
    "outcome": "outcome=error",
    "error": "error=500",
    "kind": "kind=CARD",
    "tool": "tool=find_order",
    "release": "release=r-7",
    "text": "text=number+4711",
    "nothing": "text=no-such-word",
}
_SOME = f"tr-{1000:032x}"
"""A trajectory that every store of more than 4,000 events has."""
PAGES = {
    "trajectory": f"trajectories/{_SOME}",
    "proof": f"trajectories/{_SOME}/proof",
    "evidence of one": f"evidence?trajectory={_SOME}&tenant={TENANT}",
    "access": "access",
    "low confidence": "review",
    "samples": "review?why=sample",
    "quarantine": "quarantine",
    "vault": "vault",
    "consents": "consents",
    "holds": "holds",
    "erasure": "erasure",
    "keys": "keys",
    "tenants": "tenants",
    "verify": "verify",
    "learning": "learning",
    "version": "versions/v000199",
    "compare": "compare?first=v000198&second=v000199",
    "live": "live",
    "terms": "terms",
}
_OPERATORS = {"trajectories": "trajectories", "learning": "learning", "order": "versions/v000100/order", "live": "live"}
"""Pages that an operator, who sees every tenant, asks of other indexes or has alone."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--keep", type=Path, help="a directory in which the stores stay, and are found again by the next run")
    asked = parser.parse_args()
    times = 7 if asked.quick else 21
    with ExitStack() as stack:
        where = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        filled = where / "filled.json"
        sqlite = stack.enter_context(_services(where / "sqlite", None))
        stores, targets = {"sqlite": sqlite}, list[Target]([IntoSqlite(sqlite.database)])
        if find_binaries() is not None:
            server = stack.enter_context(temporary_postgres() if asked.keep is None else kept_postgres(where.resolve() / "server"))
            database = PostgresDatabase(server, "headrace_1") if filled.exists() else server.new_database()
            stores["postgres"] = stack.enter_context(_services(where / "postgres", database))
            superuser = stack.enter_context(server.superuser(database.name))
            targets.append(IntoPostgres(superuser))
        if not filled.exists():
            began = time.perf_counter()
            num_leaves = fill(targets, asked.events, partial(track, description="filling the stores", console=Console(stderr=True)))
            if "postgres" in stores:
                superuser.execute("ANALYZE")
            made = {"events": asked.events, "leaves": num_leaves, "fill_s": round(time.perf_counter() - began, 1)}
            filled.write_text(json.dumps(made))
        measured = {
            name: asyncio.run(_ask(services, times, asked.verify and name == "sqlite")) for name, services in stores.items()
        }
        about = json.loads(filled.read_text())
    result: dict[str, Any] = {"bench": "console", **about, "load": os.getloadavg()[1]}
    result |= {name: {key: value for key, value in one.items() if key not in _LAST} for name, one in measured.items()}
    result |= {key: {name: one[key] for name, one in measured.items()} for key in _LAST}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


_LAST = ("first_page_ms", "filter_ms")


@contextmanager
def _services(directory: Path, database: PostgresDatabase | None) -> Iterator[Services]:
    """A data proxy's parts over a store of its own in ``directory``."""
    urls: PostgresUrls | None = database.urls if database is not None else None
    files = ensure(directory / "config")
    where: dict[str, SecretStr | None] = {"database_url": urls.app, "database_owner_url": urls.owner} if urls else {}
    settings = Settings(data_dir=directory / "data", config_dir=files.directory, **where)  # type: ignore[arg-type]
    table = TokenBytes([bytes([i]) for i in range(256)], "bench")
    services = build_services(settings, files, TenantRedactors(bytes(32), 16, table))
    try:
        yield services
    finally:
        services.database.close()


async def _ask(services: Services, times: int, verify: bool) -> dict[str, Any]:
    """All that is measured of one store."""
    with services.database.write() as connection:
        key, operators = (issue_key(connection, NewKey(who, "", "admin"), services.now_us()).key for who in (TENANT, OPERATOR))
        services.keys.load(connection)
    began = time.perf_counter()
    services.checkpoints.cut()
    cut_s = time.perf_counter() - began
    app = create_app(services)
    async with browser(app) as client, browser(app) as operator:
        await sign_in(client, key)
        await sign_in(operator, operators)
        first = await _median_ms(client, "trajectories", times)
        filters = {name: await _median_ms(client, f"trajectories?{query}", times) for name, query in FILTERS.items()}
        pages = {name: await _median_ms(client, path, times) for name, path in PAGES.items()}
        pages |= {f"{name}, operator": await _median_ms(operator, path, times) for name, path in _OPERATORS.items()}
        found: dict[str, Any] = {
            "filters_ms": {name: wall for name, (wall, _) in filters.items()},
            "pages_ms": {name: wall for name, (wall, _) in pages.items()},
            "first_checkpoint_s": round(cut_s, 2),
            "cpu_ms": {"first_page": first[1], "filter": round(statistics.median(cpu for _, cpu in filters.values()), 1)},
            "first_page_ms": first[0],
            "filter_ms": round(statistics.median(wall for wall, _ in filters.values()), 1),
        }
        if verify:
            print("verifying every leaf", file=sys.stderr, flush=True)
            found |= await _verified(client)
        return found


def browser(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://console", follow_redirects=True, timeout=600)


async def sign_in(client: httpx.AsyncClient, key: str) -> None:
    token = _token((await client.get("/console/sign-in")).text)
    await client.post("/console/sign-in", data={"csrf": token, "key": key, "purpose": "a measurement"})


async def _median_ms(client: httpx.AsyncClient, path: str, times: int) -> _Ms:
    took, used = [], []
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        answer = await client.get(f"/console/{path}")
        took.append((time.perf_counter() - began) * 1000)
        used.append((time.process_time() - cpu) * 1000)
        assert answer.status_code == 200 and "sign-in" not in str(answer.url), (path, answer.status_code)
    return round(statistics.median(took), 1), round(statistics.median(used), 1)


async def _verified(client: httpx.AsyncClient) -> dict[str, float]:
    """The first page while every leaf is verified, how long that takes, and by how much this process grows meanwhile at most."""
    page = (await client.get("/console/verify")).text
    began, before = time.perf_counter(), _resident_mb()
    await client.post("/console/verify", data={"csrf": _token(page)})
    meanwhile, _ = await _median_ms(client, "trajectories", 7)
    peak = 0.0
    while 'id="verdict"' not in (page := (await client.get("/console/verify")).text):  # asked as a browser asks
        peak = max(peak, _resident_mb())
        await asyncio.sleep(1)
    assert "Nothing was changed" in page, page[-2000:]
    took_s = round(time.perf_counter() - began, 1)
    return {"first_page_while_verifying_ms": meanwhile, "verify_s": took_s, "verify_grows_mb": round(peak - before, 1)}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _token(page: str) -> str:
    return page.split('name="csrf" value="')[1].split('"')[0]


if __name__ == "__main__":
    main()
