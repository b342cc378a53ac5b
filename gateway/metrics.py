"""Counters in Prometheus' text format. One event loop owns them, so there is no lock. No label holds what an agent sent."""

from collections import Counter

_HELP = {
    "headrace_gateway_calls_total": ("counter", "Chat calls by HTTP status."),
    "headrace_gateway_deliveries_total": ("counter", "Chat calls that reached an engine, by how they ended."),
    "headrace_gateway_refused_total": ("counter", "Calls refused by the gateway, by code."),
    "headrace_gateway_upstream_failures_total": ("counter", "Failed tries by worker."),
    "headrace_gateway_first_byte_seconds_sum": ("counter", "Seconds from a call's start to the engine's first byte, summed."),
    "headrace_gateway_first_byte_seconds_count": ("counter", "Calls in headrace_gateway_first_byte_seconds_sum."),
    "headrace_gateway_in_flight": ("gauge", "Calls on each worker."),
    "headrace_gateway_worker_health": ("gauge", "0 ready, 1 waiting, 2 down."),
    "headrace_gateway_key_table_age_seconds": ("gauge", "Seconds since the key table was last confirmed."),
}


class Metrics:
    """Values by (name, label, label value); an unlabelled one has empty strings."""

    def __init__(self) -> None:
        self._values: Counter[tuple[str, str, str]] = Counter()

    def add(self, name: str, label: str = "", value: str = "", amount: float = 1) -> None:
        """Count ``amount`` on a counter."""
        self._values[name, label, value] += amount  # type: ignore[assignment]  # Counter also sums floats

    def set(self, name: str, amount: float, label: str = "", value: str = "") -> None:
        """Set a gauge."""
        self._values[name, label, value] = amount  # type: ignore[assignment]

    def render(self) -> str:
        """The exposition text."""
        lines: list[str] = []
        for name, (kind, text) in _HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for (other, label, value), amount in sorted(self._values.items()):
                if other == name:
                    lines.append(f"{name}{{{label}={_quote(value)}}} {amount}" if label else f"{name} {amount}")
        return "\n".join(lines) + "\n"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
