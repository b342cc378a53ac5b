"""Every figure of the Live page, against a store and a gateway whose figures are known."""

import asyncio
import json
import re
from collections.abc import Sequence
from html import unescape

import pytest

from dataproxy.console.rendering import size, when
from gateway.metrics import Metrics
from tests.console.browse import Browser
from tests.console.conftest import Stage
from tests.console.gateway_metrics import answering
from tests.dataproxy.exchanges import exchange, user, write

pytestmark = pytest.mark.slow


def figures(browser: Browser) -> dict[str, str]:
    """What the page says, by the words that it stands under."""
    pairs = re.findall(r"<dt[^>]*>(.*?)</dt><dd>(.*?)</dd>", browser.page, re.S)
    return {unescape(name): " ".join(unescape(re.sub(r"<[^>]*>", " ", value)).split()) for name, value in pairs}


def call(stage: Stage, num_ms: Sequence[int], drained: bool) -> None:
    """Calls that end now and took so many milliseconds each."""
    journal, now_us = stage.proxy.journal(), stage.proxy.clock()
    for i, took in enumerate(num_ms):
        pair = exchange([user(f"Call {i}")], session=f"live-{i}", prompt=[60 + i], started_us=now_us - took * 1000, ended_us=now_us)
        asyncio.run(write(journal, pair))
    journal.close()
    if drained:
        stage.proxy.drain()


def metrics() -> Metrics:
    """Of a gateway with two workers, one of which takes no calls yet."""
    made = Metrics()
    made.set("headrace_gateway_waiting", 3)
    for status, num in (("200", 1234), ("429", 56)):
        made.set("headrace_gateway_calls_total", num, "status", status)
    for worker, health, in_flight, version in (("http://e1", 0, 2, "v000004"), ("http://e2", 1, 5, "v000003")):
        made.set("headrace_gateway_worker_health", health, "worker", worker)
        made.set("headrace_gateway_in_flight", in_flight, "worker", worker)
        made.set("headrace_engine_weight_version", 1, "worker", worker, "version", version)
    return made


def test_each_figure_is_that_of_the_store_the_journal_and_the_gateway(stage: Stage) -> None:
    operator, tenant, services = stage.browser("admin", ""), stage.browser("trainer"), stage.proxy.services
    operator.get("/live")
    assert figures(operator)["events stored a second"] == "—", "of the first look nobody knows how long ago the one before was"
    stage.proxy.clock.advance(10)
    call(stage, (100, 300), drained=True)
    call(stage, (5,), drained=False)
    run = services.data_dir / "run"
    run.mkdir(exist_ok=True)
    (run / "gateway.pid").write_text("4711\n")
    with answering(metrics().render) as address:
        (run / "stack.json").write_text(json.dumps({"gateway": address}))
        operator.get("/live")
    backlog, found = services.drain.backlog_bytes(), figures(operator)
    assert backlog > 0 and found["journal not yet drained"] == size(backlog)
    assert found["events stored a second"] == "0.3"  # two calls and the first look at the page, in ten seconds
    assert (found["serving"], found["quarantined"], found["rewards waiting for their exchange"]) == ("v000004", "1", "0")
    assert (found["calls in the last minute"], found["newest"], found["failed"]) == ("2", when(stage.proxy.clock()), "1")
    assert (found["half took at most"], found["95 % at most"]) == ("180 ms", "700 ms")  # of 0.02, 50, 100, 180, 300, 400, 700
    assert (found["calls waiting in the queue"], found["calls in flight"]) == ("3", "7")
    assert found["http://e1"] == "ready 2 in flight, serves v000004"
    assert found["http://e2"] == "waiting 5 in flight, serves v000003"
    assert (found["answered 200"], found["answered 429"]) == ("1,234", "56")
    assert (found["w1"], found["v000000"], found["gateway"]) == ("7 calls", "sampled 6", "4711")
    tenant.get("/live")
    mine = figures(tenant)
    assert mine["calls in the last minute"] == "2" and mine["w1"] == "7 calls"
    assert mine.keys().isdisjoint(("journal not yet drained", "events stored a second", "calls waiting in the queue", "http://e1"))


def test_without_a_gateway_the_page_says_what_the_store_knows(stage: Stage) -> None:
    operator = stage.browser("admin", "")
    operator.get("/live")
    assert "calls waiting in the queue" not in figures(operator) and figures(operator)["serving"] == "v000004"
    assert "No gateway answers here" in operator.text
    assert "No gateway answers here" not in stage.browser("admin", "acme").get("/live").text  # whose gateway it is not
    piece = operator.get("/live", **{"hx-request": "true"}).text
    assert piece.startswith('<div id="live"') and 'hx-trigger="every 5s"' in piece and "<html" not in piece
