"""Requests and answers as SGLang 0.5.23 speaks them, and the events that they become: the files guard the protocol.

The bytes are its own, but for the arguments of tool calls, which a model of random weights does not write as JSON.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dataproxy.store.reading import find_event
from tests.dataproxy.exchanges import call_in
from tests.dataproxy.lease.test_leases import stored
from tests.dataproxy.proxy import Proxy

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(p.relative_to(GOLDEN).as_posix() for p in GOLDEN.rglob("*") if p.name.endswith(("answer.json", "stream.sse")))
_OF_THE_RUN = ("completion_id", "harness", "tools", "latency_us", "key_id", "worker", "path")


async def event_of(proxy: Proxy, case: str) -> dict[str, Any]:
    """What the exchange in files ``case`` becomes, without what differs from run to run."""
    answer = GOLDEN / case
    request = msgspec.json.decode((answer.parent / f"{answer.name.split('.')[0]}.request.json").read_bytes())
    body = answer.read_bytes() if answer.suffix == ".sse" else msgspec.json.decode(answer.read_bytes())
    (event_id,) = await stored(proxy, call_in(answer.parent.name, request, body, prompt=[1, 2], outputs=[[3]]))
    with proxy.services.database.read() as connection:
        event = find_event(connection, "acme", event_id)
    assert event is not None
    m = {name: value for name, value in event.m.items() if name not in _OF_THE_RUN}
    return {"o": event.o, "h": event.h, "a": event.a, "y": event.y, "m": m}


@pytest.mark.parametrize("case", CASES)
async def test_an_exchange_of_sglang_becomes_the_event_on_file(proxy: Proxy, case: str) -> None:
    expected = msgspec.json.decode((GOLDEN / f"{case}.event.json").read_bytes())
    assert await event_of(proxy, case) == expected


def test_every_dialect_has_its_files() -> None:
    assert {case.split("/")[0] for case in CASES} == {"chat", "completions", "responses", "messages"}
    assert len(CASES) == 11
