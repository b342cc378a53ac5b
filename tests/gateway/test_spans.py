"""Spans of calls: their trace, what they say and do not say, and a collector that is away."""

import json
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from gateway.spans import Spans
from tests.fakes.engine_chat import Script
from tests.fakes.serving import serve
from tests.gateway.sse import BODY, CHAT

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PLAIN = {**BODY, "stream": False, "messages": [{"role": "user", "content": "xyzzy-canary"}]}


class Collector:
    """Keeps the spans that are posted to it; ``status`` is what it answers."""

    def __init__(self):
        self.spans = []
        self.requests = []
        self.status = 200

    @asynccontextmanager
    async def serve(self):
        app = FastAPI()

        @app.post("/v1/traces")
        async def traces(request: Request) -> Response:
            body = await request.body()
            self.requests.append((dict(request.headers), body))
            if self.status == 200:
                for resource in json.loads(body)["resourceSpans"]:
                    self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
            return Response(status_code=self.status)

        async with serve(app, lifespan="off") as url:
            yield url


@pytest.fixture
async def collector(served):
    collector = Collector()
    async with collector.serve() as url:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b",
            "OTEL_SERVICE_NAME": "edge",
        }
        served.gateway.spans = Spans.from_environment(environment)
        yield collector


def attributes(span):
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


async def test_a_call_is_a_span_of_the_agents_trace_and_the_engine_gets_the_context_as_it_came(served, collector):
    sent = f"00-{TRACE}-{PARENT}-01"
    async with served.client() as client:
        answer = await client.post(CHAT, json=PLAIN, headers={"traceparent": sent, "tracestate": "k=v"})
    await served.gateway.spans.flush(served.gateway.pool)
    (span,) = collector.spans
    assert (span["traceId"], span["parentSpanId"], span["name"], span["kind"]) == (TRACE, PARENT, f"POST {CHAT}", 2)
    said = attributes(span)
    assert said["headrace.event"] == answer.headers["x-headrace-event"]
    assert (said["http.response.status_code"], said["gen_ai.request.model"], said["headrace.delivery"]) == (
        "200",
        "tiny",
        "complete",
    )
    assert int(span["startTimeUnixNano"]) < int(span["endTimeUnixNano"])
    assert served.engine.calls[0].headers["traceparent"] == sent and served.engine.calls[0].headers["tracestate"] == "k=v"
    headers, body = collector.requests[0]
    assert headers["x-team"] == "a b" and b'"edge"' in body
    assert b"xyzzy" not in body and b"hr_" not in body


@pytest.mark.parametrize("sent", [None, "garbage", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"])
async def test_without_a_valid_context_the_event_names_the_trace(served, collector, sent):
    async with served.client() as client:
        answer = await client.post(CHAT, json=PLAIN, headers={"traceparent": sent} if sent else {})
    await served.gateway.spans.flush(served.gateway.pool)
    (span,) = collector.spans
    assert (span["traceId"], span["parentSpanId"]) == (answer.headers["x-headrace-event"], "")
    assert served.engine.calls[0].headers.get("traceparent") == sent  # none is made up


async def test_a_trace_that_is_not_sampled_is_not_sent(served, collector):
    async with served.client() as client:
        await client.post(CHAT, json=PLAIN, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    await served.gateway.spans.flush(served.gateway.pool)
    assert collector.requests == []


async def test_a_failed_call_is_an_error(served, collector):
    served.engine.script = Script([b"data: {}\n\n"], cut=True)
    async with served.client() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(CHAT, json=BODY)
    await served.gateway.spans.flush(served.gateway.pool)
    (span,) = collector.spans
    assert span["status"] == {"code": 2} and attributes(span)["headrace.delivery"] == "upstream_error"


async def test_spans_wait_for_a_collector_that_is_away_within_bounds(served, collector, monkeypatch):
    monkeypatch.setattr("gateway.spans._MAX_KEPT", 2)
    collector.status = 503
    async with served.client() as client:
        for _ in range(3):
            await client.post(CHAT, json=PLAIN)
    await served.gateway.spans.flush(served.gateway.pool)
    assert collector.spans == [] and served.gateway.spans.num_dropped == 1
    collector.status = 200
    await served.gateway.spans.flush(served.gateway.pool)
    await served.gateway.spans.flush(served.gateway.pool)
    assert len(collector.spans) == 2


def test_nothing_is_made_without_an_endpoint_and_one_that_is_no_url_is_refused():
    assert Spans.from_environment({"OTEL_SERVICE_NAME": "x"}) is None
    with pytest.raises(ValueError, match="base URL"):
        Spans.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://collector:4317"})


def test_a_collector_at_an_https_address_must_show_a_certificate_of_its_name():
    spans = Spans.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector:4318"})
    assert (spans._origin.certified, spans._origin.port) == ("collector", 4318)
