"""Prometheus: the numbers of the last step as text, in a file beside metrics.jsonl and, where a port is set, over HTTP.

The file suits node_exporter's textfile collector, the port a scrape. Source: Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

PREFIX: Final = "headrace_trainer_"

MEANING: Final[Mapping[str, str]] = {
    "steps_total": "Steps taken by this process.",
    "version": "Index of the version that the last step made.",
    "reward_mean": "Mean reward of the batch's trajectories.",
    "reward_std": "Standard deviation of their rewards.",
    "advantage_mean": "Mean advantage; far from 0 for long: the baseline does not follow.",
    "advantage_std": "Standard deviation of the advantages; 0: the batch teaches nothing.",
    "entropy": "Mean entropy in nats where tokens were sampled; falling to 0: the policy stops exploring.",
    "kl_behaviour_proximal": "Mean log ratio of the sampling policy to the one before the step, per token.",
    "kl_reference": "Mean estimate (k3) of the divergence from v000000, per token.",
    "clip_fraction": "Share of tokens whose gradient the clip cut off.",
    "limited_fraction": "Share of tokens whose behaviour weight was truncated or masked.",
    "altered_fraction": "Share of sampled tokens that redaction had overwritten; they are not trained on.",
    "staleness_mean": "Versions that the trained tokens lie behind, on average.",
    "logprob_diff_median": "Median |engine - trainer| logprob on the same weights; must stay near rounding.",
    "logprob_diff_p99": "The 99th percentile of the same.",
    "grad_norm": "Norm of the gradient before clipping.",
    "value_error": "Root mean square of what the value head was wrong by, in units of reward.",
    "value_explained": "Share of the variance of returns that the value head explained; below 0: worse than their mean.",
    "waited_s": "Seconds of the step that training left the cores to serving.",
    "paused_s": "Seconds that an engine held its requests while the version was swapped in; the longest of all engines.",
    "num_aborted": "Requests that ended by the swap; must be 0.",
    "trained_tokens_per_s": "Trained tokens a second of forward, backward and update.",
    "computed_tokens_per_s": "Tokens a second that went through the model; shared prefixes count once.",
}


def render(numbers: Mapping[str, float], left_out: Mapping[str, int]) -> str:
    """The exposition text; infinite and undefined numbers are kept as the format writes them."""
    lines = []
    for name, value in sorted(numbers.items()):
        full = PREFIX + re.sub(r"[^a-zA-Z0-9_]", "_", name)
        if name in MEANING:
            lines.append(f"# HELP {full} {MEANING[name]}")
        lines += [f"# TYPE {full} {'counter' if name.endswith('_total') else 'gauge'}", f"{full} {_number(value)}"]
    if left_out:
        full = f"{PREFIX}left_out"
        lines += [f"# HELP {full} Trajectories left out of the last batch, by reason.", f"# TYPE {full} gauge"]
        lines += [f'{full}{{reason="{reason}"}} {count}' for reason, count in sorted(left_out.items())]
    return "\n".join(lines) + "\n"


def write_text(path: Path, text: str) -> None:
    """Replace the file, so that a reader never sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.rename(path)


class Exporter:
    """Serves the last text at /metrics on `port` (0: any free one) until closed."""

    def __init__(self, host: str, port: int) -> None:
        self.text = ""
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            """One text."""

            def do_GET(self) -> None:
                """The text, or 404."""
                found = self.path.split("?")[0] == "/metrics"
                body = exporter.text.encode() if found else b"see /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not worth a line."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{'+' if value > 0 else '-'}Inf" if math.isinf(value) else f"{value:.12g}"
