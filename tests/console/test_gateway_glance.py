"""What the Live page takes from a gateway's metrics."""

import json
from pathlib import Path

from dataproxy.console.gateway_glance import glance, read_metrics
from dataproxy.console.live_pages import Pace
from gateway.metrics import Metrics

_MINUTE_US = 60_000_000


def test_queue_and_workers_are_read_from_what_a_gateway_writes() -> None:
    metrics = Metrics()
    metrics.count_call(200)
    metrics.count_call(200)
    metrics.count_call(429)
    metrics.set("headrace_gateway_waiting", 3)
    metrics.set("headrace_gateway_in_flight", 2, "worker", "http://e1")
    metrics.set("headrace_gateway_worker_health", 1, "worker", "http://e1")
    metrics.set("headrace_engine_weight_version", 1, "worker", "http://e1", "version", "v000003")
    found = read_metrics(metrics.render())
    worker = found.workers["http://e1"]
    assert (found.waiting, found.calls) == (3, {"200": 2, "429": 1})
    assert (worker.in_flight, worker.health, worker.version) == (2, "waiting", "v000003")


def test_no_gateway_is_nothing_to_show(tmp_path: Path) -> None:
    file = tmp_path / "stack.json"
    assert glance(file) is None
    file.write_text(json.dumps({"gateway": "http://127.0.0.1:9"}))
    assert glance(file) is None


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace = Pace()
    assert pace.per_s(0, 100) is None
    assert pace.per_s(_MINUTE_US, 700) == 10
    assert pace.per_s(4 * _MINUTE_US, 700) is None  # what is older says nothing of now
