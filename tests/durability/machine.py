"""One machine of real parts on a fake engine: gateway and data proxy as processes that are killed and come back at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Consent, NewKey
from dataproxy.keyfiles import KeyFiles, ensure
from deploy.paths import Paths
from tests.durability.nursery import NAMES
from tests.fakes.generation import VOCABULARY_OFFSET

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 300.0
"""Longer than anything takes on a busy machine; no test waits for it to pass."""


@dataclass(slots=True)
class Machine:
    """``gateway`` is a base URL; ``paths`` are as in a started Headrace, so that its oracles can be used."""

    paths: Paths
    run_dir: Path
    gateway: str
    process: subprocess.Popen[bytes]
    model: str = "tiny"

    @property
    def files(self) -> KeyFiles:
        """The key files."""
        return KeyFiles(self.paths.config_dir)

    def client(self) -> SyncDataProxyClient:
        """A client of the data proxy with the operator's key."""
        return SyncDataProxyClient(self.paths.socket, self.files.api_key("admin"), timeout_s=60.0)

    def pid(self, name: str) -> int:
        """The process that is ``name`` now."""
        return int((self.run_dir / f"{name}.pid").read_text())

    def kill(self, name: str) -> None:
        """SIGKILL; returns once its successor has been born."""
        pid = self.pid(name)
        with suppress(ProcessLookupError):  # a fault point was quicker
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.pid(name) != pid, f"a new {name}")

    def check(self) -> None:
        """Raise AssertionError if the nursery has ended."""
        assert self.process.poll() is None, self.last_words()

    def last_words(self) -> str:
        """The end of what each part said."""
        logs = [self.run_dir / f"{name}.log" for name in NAMES]
        return "\n".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in logs if log.exists())

    def new_agent(self, tenant: str = "acme", agent: str = "bot") -> str:
        """An agent's key, with consent to everything, known to the gateway."""
        with self.client() as client:
            client.set_consent(Consent(tenant, True, True, "durability test", agent))
            key = client.create_key(NewKey(tenant, agent, "agent")).key
        headers = {"authorization": f"Bearer {key}"}
        self.until(lambda: self._get("/v1/models", headers), "the new key at the gateway")
        return key

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for ``condition``; fail with everybody's last words where it does not come."""
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            self.check()
            assert time.monotonic() < deadline, f"{what} did not happen:\n{self.last_words()}"
            time.sleep(0.01)

    def until_time(self, over: float) -> None:
        """Wait for a moment of the monotonic clock; fail where a process ends before it."""
        while time.monotonic() < over:
            self.check()
            time.sleep(0.1)

    def wait_ready(self) -> None:
        """Return once calls are served."""
        self.until(lambda: self._get("/ready", {}), "readiness")

    def settle(self) -> None:
        """Return once the journal is drained and no reward is pending."""

        def drained() -> bool:
            try:
                with self.client() as client:
                    status = client.status()
            except Exception as error:  # noqa: BLE001  whatever it says while it starts: asked again
                assert "unknown" not in str(error)
                return False
            return status.journal_backlog == 0 and status.pending_rewards == 0

        self.until(drained, "the journal's drain")

    def _get(self, path: str, headers: Mapping[str, str]) -> bool:
        try:
            return httpx.get(f"{self.gateway}{path}", headers=headers, timeout=10).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def machine(directory: Path, **environment: str) -> Iterator[Machine]:
    """A machine below ``directory`` that serves; ``environment`` goes to all its processes."""
    paths = Paths(directory / "data", directory / "config")
    run_dir, tokenizer = directory / "nursery", directory / "tokenizer.json"
    for path in (paths.run_dir, run_dir):
        path.mkdir(parents=True)
    ensure(paths.config_dir)
    write_tokenizer(tokenizer)
    engine, gateway = free_port(), free_port()
    common = {"DATA_DIR": str(paths.data_dir), "CONFIG_DIR": str(paths.config_dir)}
    gateway_settings = {**common, "PORT": str(gateway), "ENGINE_URLS": json.dumps([f"http://127.0.0.1:{engine}"])}
    dataproxy_settings = {**common, "TOKENIZER_PATH": str(tokenizer), "MASK_ID": "3", "SETTLE_S": "0"}
    settings = {f"HEADRACE_GATEWAY_{name}": value for name, value in gateway_settings.items()}
    settings |= {f"HEADRACE_DATAPROXY_{name}": value for name, value in dataproxy_settings.items()}
    command = [sys.executable, "-m", "tests.durability.nursery", str(run_dir), str(engine)]
    with (run_dir / "nursery.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=_ROOT, env={**os.environ, **settings, **environment}, stdout=log, stderr=log)
    made = Machine(paths, run_dir, f"http://127.0.0.1:{gateway}", process)
    try:
        made.wait_ready()
        yield made
    finally:
        process.terminate()
        try:
            process.wait(timeout=_PATIENCE_S)
        finally:
            process.kill()


def write_tokenizer(path: Path) -> None:
    """The fake engine's vocabulary, one id a byte, as the file that redaction reads."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    vocabulary = {character: VOCABULARY_OFFSET + byte for byte, character in alphabet.items()}
    path.write_text(json.dumps({"decoder": {"type": "ByteLevel"}, "model": {"vocab": vocabulary}, "added_tokens": []}))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
