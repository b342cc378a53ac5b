"""Counters in Prometheus' text format. One event loop owns them, so there is no lock. No label holds what an agent sent."""

import re
from collections import Counter
from collections.abc import Sequence

_HELP = {
    "headrace_gateway_calls_total": ("counter", "Calls by HTTP status; 499: the agent left first."),
    "headrace_gateway_deliveries_total": ("counter", "Calls that reached an engine, by how they ended."),
    "headrace_gateway_refused_total": ("counter", "Calls refused by the gateway, by code."),
    "headrace_gateway_upstream_failures_total": ("counter", "Failed tries by worker."),
    "headrace_gateway_first_byte_seconds_sum": ("counter", "Seconds from a call's start to the engine's first byte, summed."),
    "headrace_gateway_first_byte_seconds_count": ("counter", "Calls in headrace_gateway_first_byte_seconds_sum."),
    "headrace_gateway_waiting": ("gauge", "Calls in the fair queue."),
    "headrace_gateway_in_flight": ("gauge", "Calls of this process on each worker."),
    "headrace_gateway_worker_elsewhere": ("gauge", "Calls of others on each worker when it was last asked."),
    "headrace_gateway_worker_health": ("gauge", "0 ready, 1 waiting, 2 down."),
    "headrace_gateway_worker_draining": ("gauge", "1 while a worker gets no new sessions."),
    "headrace_gateway_worker_ejected": ("gauge", "1 while a worker is left out for its failures."),
    "headrace_gateway_key_table_age_seconds": ("gauge", "Seconds since the key table was last confirmed."),
    "headrace_gateway_journal_failed": ("gauge", "1 once the journal cannot be written: restart this process."),
    "headrace_gateway_unrecorded_calls_total": ("counter", "Calls served though they could not be recorded."),
    "headrace_engine_weight_version": ("gauge", "1 for the version that each engine serves."),
    "headrace_engine_aborted_total": ("counter", "Requests that the engine aborted, as it tells."),
    "headrace_engine_turns_extended_total": ("counter", "Turns whose prompt extended an earlier one by ids, as the engine tells."),
    "headrace_engine_turns_rendered_total": ("counter", "Turns that the engine rendered anew, by reason."),
}


_FIRST_BYTE = "headrace_gateway_first_byte_seconds"
_STATUS = {status: str(status) for status in range(1000)}


class Metrics:
    """Values by name and labels, which come as ``label, value, label, value, …``."""

    def __init__(self) -> None:
        self._values: Counter[tuple[str, ...]] = Counter()
        self._first_byte_us = self._num_first_bytes = 0

    def add(self, name: str, label: str = "", value: str = "", amount: float = 1) -> None:
        """Count ``amount`` on a counter."""
        self._values[name, label, value] += amount  # type: ignore[assignment]  # Counter also sums floats

    def count_call(self, status: int) -> None:
        """A call has ended with ``status``. This and the next two are on the path of every call."""
        self._values["headrace_gateway_calls_total", "status", _STATUS[status]] += 1

    def count_delivery(self, delivery: str) -> None:
        """A call that reached an engine has ended."""
        self._values["headrace_gateway_deliveries_total", "delivery", delivery] += 1

    def count_first_byte(self, microseconds: int) -> None:
        """An engine has begun its answer after so long."""
        self._first_byte_us += microseconds
        self._num_first_bytes += 1

    def set(self, name: str, amount: float, *labels: str) -> None:
        """Set a gauge, or a counter that somebody else counts."""
        self._values[name, *(labels or ("", ""))] = amount  # type: ignore[assignment]

    def clear(self, name: str, value: str) -> None:
        """Forget what ``name`` has under the first label ``value``; every name if ``name`` is empty."""
        for key in [key for key in self._values if key[2] == value and name in ("", key[0])]:
            del self._values[key]

    def render(self, process: str = "", *, engines: bool = True) -> str:
        """The exposition text; ``process`` is a label on every line of this process's own, where several answer as one.

        What the ``engines`` tell is the same in all of them, so one tells it for all.
        """
        self._values[_FIRST_BYTE + "_sum", "", ""] = self._first_byte_us / 1e6  # type: ignore[assignment]
        self._values[_FIRST_BYTE + "_count", "", ""] = self._num_first_bytes
        lines: list[str] = []
        for name, (kind, text) in _HELP.items():
            is_engines = name.startswith("headrace_engine_")
            if is_engines and not engines:
                continue
            common = ("process", process) if process and not is_engines else ()
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for key, amount in sorted(self._values.items()):
                if key[0] == name:
                    lines.append(f"{name}{_labels((*key[1:], *common))} {float(amount) if amount % 1 else int(amount)}")
        return "\n".join(lines) + "\n"


def merge(texts: Sequence[str]) -> str:
    """One exposition text out of several, each metric's lines together."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for line in (line for text in texts for line in text.splitlines()):
        name = line.split(maxsplit=3)[2] if line.startswith("#") else re.split("[{ ]", line, maxsplit=1)[0]
        lines = (heads if line.startswith("#") else samples).setdefault(name, [])
        if not line.startswith("#") or line not in lines:
            lines.append(line)
    return "\n".join(line for name in heads for line in (*heads[name], *samples.get(name, ()))) + "\n"


def _labels(pairs: tuple[str, ...]) -> str:
    named = [f"{label}={_quote(value)}" for label, value in zip(pairs[::2], pairs[1::2], strict=True) if label]
    return "{" + ",".join(named) + "}" if named else ""


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
