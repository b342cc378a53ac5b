"""`headrace up` that trains an adapter and serves it as one: nothing pauses, and each token bears its version."""

from pathlib import Path

import httpx
import pytest

from deploy.launcher.running import RunningStack
from tests.e2e import oracle
from tests.e2e.test_kill import TRAINER, load, settle
from tests.e2e.test_swap import serving
from tests.stack import running_stack

LORA = "--enable-lora --max-lora-rank 8 --lora-target-modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
ADAPTER = {"HEADRACE_TRAINER_LORA_RANK": "4", "HEADRACE_TRAINER_SWAP": "adapter", "HEADRACE_TRAINER_LEARNING_RATE": "1e-3"}


@pytest.mark.e2e
@pytest.mark.soak
def test_adapters_are_served_under_traffic(tmp_path: Path) -> None:
    received = tmp_path / "received.jsonl"
    with running_stack(tmp_path, "--engine-args", LORA, environment={**TRAINER, **ADAPTER}) as stack:
        key = stack.new_agent("acme", "bot", training=True, reason="adapter test")
        with load(stack, key, received) as client:
            oracle.until(lambda: serving(stack) >= 3, "three adapters", stack)
            oracle.until(lambda: oracle.num_answers(received) > 60, "60 answers", stack)
            assert client.poll() is None
            with stack.client() as proxy:
                trained = {version.version: version for version in proxy.list_versions() if version.version != "v000000"}
        settle(stack)
        swapped = [version.metrics for version in trained.values() if version.state in ("serving", "retired")]
        assert len(swapped) >= 3
        assert {(metrics["paused_s"], metrics["num_aborted"]) for metrics in swapped} == {(0.0, 0.0)}
        oracle.check_answers(stack, oracle.lines(received, "answer"))
        whole = [event for event in oracle.all_events(stack) if event.y["delivery"] == "complete"]
        stamped = {span[0] for event in whole for choice in event.m["versions"] for span in choice}
        assert len(stamped) >= 3 and stamped <= {"v000000", *trained}
        oracle.until(lambda: held(stack) == ("v000000", f"v{serving(stack):06}"), "the engine serves what is on record", stack)


def held(stack: RunningStack) -> tuple[str, str]:
    """The version of the engine's own weights, and the one it answers with."""
    state = httpx.get(f"{stack.engine}/headrace/engine", timeout=30).json()
    return state["base_version"], state["weight_version"]
