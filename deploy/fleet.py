"""The workers of a running Headrace, asked of its gateway with the operator's key."""

import json
from typing import Any

import httpx
import msgspec

from deploy.errors import DeployError, NotRunning
from deploy.paths import Paths

_TIMEOUT_S = 10.0
BY_HAND = "by hand"
"""In place of an instance: no start of the worker bears it, so nobody but a person lets such a worker back in."""


class Worker(msgspec.Struct, frozen=True):
    """A worker as the gateway sees it; ``refusal`` says why it gets no calls although it answers."""

    id: str
    url: str
    lane: str
    kind: str
    health: str
    in_flight: int
    elsewhere: int
    version: str
    refusal: str


class _Workers(msgspec.Struct):
    workers: list[Worker]


def list_workers(paths: Paths) -> list[Worker]:
    """Every worker.

    Raises:
        NotRunning: Headrace is still starting, or its gateway does not answer.
    """
    return msgspec.json.decode(_ask(paths, "GET", "/v1/workers"), type=_Workers).workers


def find_worker(paths: Paths, name: str) -> Worker:
    """The worker of that id or URL.

    Raises:
        DeployError: there is none; it names those that there are.
    """
    found = list_workers(paths)
    for worker in found:
        if name in (worker.id, worker.url):
            return worker
    known = ", ".join(f"{worker.id} ({worker.url})" for worker in found) or "none"
    raise DeployError(f"There is no worker {name}. There are: {known}.")


def take_out(paths: Paths, worker: Worker, reason: str) -> None:
    """No calls for it until somebody takes it back."""
    _ask(paths, "PUT", f"/v1/workers/{worker.id}/out", {"reason": reason, "until_restart": True, "instance": BY_HAND})


def take_back(paths: Paths, worker: Worker) -> None:
    """Calls for it again."""
    _ask(paths, "DELETE", f"/v1/workers/{worker.id}/out")


def _ask(paths: Paths, method: str, path: str, body: Any = None) -> bytes:
    if not paths.stack_file.exists():
        raise NotRunning(f"Headrace on {paths.data_dir} is still starting; {paths.log_dir} says how far it is.")
    base_url = json.loads(paths.stack_file.read_text())["gateway"]
    headers = {"authorization": f"Bearer {(paths.config_dir / 'admin.key').read_text().strip()}"}
    try:
        response = httpx.request(method, f"{base_url}{path}", headers=headers, json=body, timeout=_TIMEOUT_S, trust_env=False)
    except httpx.TransportError as error:
        raise NotRunning(f"The gateway at {base_url} does not answer right now; `headrace status` says what runs.") from error
    if response.status_code >= 400:
        raise DeployError(f"The gateway refused: {response.status_code} {response.text[:300]}")
    return response.content
