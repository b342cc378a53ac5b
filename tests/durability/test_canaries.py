"""Thousands of values through the gateway under load, while something is killed now and then: none is anywhere at rest."""

import random
from pathlib import Path
from typing import Any

import pytest

from dataproxy.redact import TokenBytes
from dataproxy.redact.at_rest import search_at_rest
from deploy.launcher.running import RunningStack
from tests.durability.canaries import Canary, canaries, may_be_chance, send_all
from tests.durability.machine import Machine, machine
from tests.durability.results import keep
from tests.e2e import oracle

pytestmark = [
    pytest.mark.slow,
    # httpcore leaves the socket that a data proxy between two lives refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LONG = 1000


def num_events(here: Machine | RunningStack) -> int:
    """Model calls in the store by now."""
    ((num,),) = oracle.rows(here, "SELECT count(*) FROM event WHERE kind = 'model_call'")  # type: ignore[arg-type]
    return int(num)


@pytest.mark.parametrize(
    ("count", "kills"), [pytest.param(300, 2, id="300"), pytest.param(10_000, 20, id="10000", marks=pytest.mark.soak)]
)
async def test_no_value_that_went_through_the_gateway_lies_anywhere(tmp_path: Path, count: int, kills: int) -> None:
    values = canaries(count, seed=count)
    with machine(tmp_path, HEADRACE_GATEWAY_JOURNAL_SEGMENT_BYTES="500000") as here:
        key, rng = here.new_agent(), random.Random(count)
        broken = await send_all(here.gateway, key, values, lambda: here.kill(rng.choice(("gateway", "dataproxy"))), kills)
        here.wait_ready()
        here.settle()
        figures = check_none_at_rest(here, values, tmp_path, tmp_path / "tokenizer.json")
    if count > LONG:
        keep("canaries", values=len(values), kills=kills, broken_calls=broken, **figures)


def check_none_at_rest(here: Machine | RunningStack, values: list[Canary], directory: Path, tokenizer: Path) -> dict[str, Any]:
    """All of ``values`` came through redaction and none lies below ``directory``; what was found and searched."""
    check_taken_out(here, len(values))
    result = search_at_rest(directory, None, [one.value for one in values], TokenBytes.from_file(tokenizer))
    where = [(values[i].kind, place, how, form) for i, place, how, form in result.found if not may_be_chance(values[i].value, form)]
    assert result.planted_found, f"the search missed what was planted: {result.missed}"
    assert not where, f"{len(where)} values lie at rest: {where[:5]}"
    searched = {"files": result.num_files, "columns": result.num_columns, "bytes": result.num_bytes}
    figures = {"found": 0, "controls": result.planted, "searched": searched}
    print(f"{len(values)} values: {figures}")
    return figures


def check_taken_out(here: Machine | RunningStack, num_values: int) -> None:
    """The values came as far as redaction, and nearly all calls past it: an empty store would show nothing."""
    with here.client() as client:
        status = client.status()
    ((quarantined,),) = oracle.rows(here, "SELECT count(*) FROM quarantine")  # type: ignore[arg-type]
    assert sum(status.redactions.values()) >= num_values, status.redactions
    assert quarantined <= 0.02 * num_events(here) + 1, f"{quarantined} calls went to the quarantine"
