"""A real SGLang for a measurement: started as production starts it, ended by its process id."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

MODEL_NAME = "tiny"


@contextmanager
def engine(model: Path, directory: Path, *extra: str) -> Iterator[str]:
    """The URL of an engine that serves `model` as v000000; `extra` are SGLang's arguments. Its log lies in `directory`."""
    from deploy.launcher.checks import free_port

    port = free_port()
    command = [sys.executable, "-m", "workers.inference", "--model-path", str(model), "--port", str(port)]
    command += ["--served-model-name", MODEL_NAME, "--weight-version", "v000000", *extra]
    url = f"http://127.0.0.1:{port}"
    with process(command, directory / "engine.log") as started:
        with httpx.Client(base_url=url, timeout=5, trust_env=False) as client:
            while not _is_ready(client):
                if started.poll() is not None:
                    raise SystemExit((directory / "engine.log").read_text(errors="replace")[-3000:])
                time.sleep(0.5)
        yield url


@contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to `log` and is killed at the end."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        started = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGKILL)  # an engine's scheduler and detokenizer follow it
        started.wait()


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False
