"""Values through the whole of Headrace with a real engine that learns meanwhile: none is anywhere at rest."""

import os
import random
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from deploy.launcher.readiness import wait_key_works
from deploy.launcher.running import RunningStack
from tests.durability.canaries import canaries, send_all
from tests.durability.results import keep
from tests.durability.test_canaries import check_none_at_rest
from tests.e2e import oracle
from tests.e2e.test_kill import TRAINER, load, settle
from tests.e2e.test_swap import serving
from tests.stack import running_stack

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    # httpcore leaves the socket that a data proxy between two lives refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
VALUES = 200
KILLS = 6


async def test_no_value_that_a_real_engine_was_told_lies_anywhere(tmp_path: Path) -> None:
    values, rng = canaries(VALUES, seed=VALUES), random.Random(VALUES)
    with running_stack(tmp_path, environment=TRAINER) as stack:
        key = stack.new_agent("acme", "bot", training=True, reason="canaries")
        with load(stack, key, tmp_path / "received.jsonl"):
            broken = await send_all(
                stack.gateway, key, values, partial(kill_one, stack, rng), KILLS, model=stack.model, max_tokens=16
            )
            oracle.until(lambda: serving(stack) >= 2, "two versions", stack)
        wait_key_works(stack.gateway, key)
        settle(stack)
        figures = check_none_at_rest(stack, values, tmp_path, stack.model_dir / "tokenizer.json")
    keep("canaries_real_engine", values=len(values), kills=KILLS, broken_calls=broken, **figures)


def kill_one(stack: RunningStack, rng: random.Random) -> None:
    """SIGKILL to the gateway or the data proxy; returns once its successor has been born."""
    name = rng.choice(("gateway", "dataproxy"))
    before = stack.pid(name)
    if before is not None:
        with suppress(ProcessLookupError):
            os.kill(before, signal.SIGKILL)
    oracle.until(lambda: stack.pid(name) not in (None, before), f"a new {name}", stack)
