"""A glance at the gateway of the same machine: its queue and its workers, from the metrics that it shows to anybody.

The launcher's file says where it is; without one, or without an answer in time, there is nothing to show.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import httpx

_WITHIN_S = 0.7
_LINE = re.compile(r"^headrace_(?:gateway_|engine_)(\w+)(?:\{([^}]*)\})? (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_HEALTH = {0: "ready", 1: "waiting", 2: "down"}


@dataclass(slots=True)
class Worker:
    """One engine: ``in_flight`` calls of all gateway processes on it, and the weights that it serves."""

    name: str
    in_flight: int = 0
    health: str = "unknown"
    version: str = ""


@dataclass(slots=True)
class Glance:
    """``waiting`` calls in the fair queue; ``calls`` by HTTP status since the gateway began."""

    waiting: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)


def glance(stack_file: Path) -> Glance | None:
    """What the gateway that ``stack_file`` names says now; None: it is not known, or does not answer in time."""
    try:
        address = str(json.loads(stack_file.read_text())["gateway"])
        with httpx.Client(timeout=_WITHIN_S, trust_env=False, verify=False) as client:
            answer = client.get(f"{address}/metrics")
    except (OSError, ValueError, KeyError, httpx.HTTPError):
        return None
    return read_metrics(answer.text) if answer.status_code == httpx.codes.OK else None


def read_metrics(text: str) -> Glance:
    """The glance in a text of Prometheus' form; what is of no interest is passed over."""
    found = Glance()
    for name, labels, value in _LINE.findall(text):
        named, number = dict(_LABEL.findall(labels)), float(value)
        worker = named.get("worker", "")
        if name == "waiting":
            found.waiting += int(number)
        elif name == "calls_total":
            status = named.get("status", "?")
            found.calls[status] = found.calls.get(status, 0) + int(number)
        elif worker and name in ("in_flight", "worker_health", "weight_version"):
            _tell(found.workers.setdefault(worker, Worker(worker)), name, number, named)
    return found


def _tell(worker: Worker, name: str, number: float, labels: dict[str, str]) -> None:
    if name == "in_flight":
        worker.in_flight += int(number)
    elif name == "worker_health":
        worker.health = _HEALTH.get(int(number), "unknown")
    elif number == 1:
        worker.version = labels.get("version", "")
