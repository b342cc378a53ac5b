"""Spans of public instrumentations, run for real on calls to the fake engine and sent as the OTLP exporter encodes them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gateway.app import App, create_gateway
from gateway.polling import KeyPoller
from gateway.settings import Settings
from tests.dataproxy.api.served import serve
from tests.dataproxy.ingest.test_otlp import TOOLS, post, stored
from tests.dataproxy.proxy import SECRET_WORD, Proxy
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve as serve_app

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
LIBRARIES = ["openinference.instrumentation.openai", "opentelemetry.instrumentation.openai"]
MESSAGES: list[Any] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": f"it is {SECRET_WORD}"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
]


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


@pytest.fixture
def gateway_key(proxy: Proxy) -> str:
    """An agent's, made before the gateway asks for keys."""
    return proxy.key("agent")


@pytest.fixture
async def gateway_url(proxy: Proxy, gateway_key: str) -> AsyncIterator[str]:
    """A gateway on a real socket before the data proxy on its own; no engine is needed for spans."""
    run, journal = proxy.data_dir / "run", proxy.journal()
    run.mkdir(parents=True)
    settings = Settings(data_dir=proxy.data_dir, config_dir=proxy.files.directory, engine_urls=("http://127.0.0.1:1",))
    gateway = create_gateway(settings, journal)
    app = App(gateway)
    with serve(proxy.services, run / "dataproxy.sock"):
        async with serve_app(app, http=app.http_protocol) as url:
            await KeyPoller(gateway)()
            yield url
    journal.close()


@contextmanager
def instrumented(library: str, exporter: Any) -> Iterator[None]:
    """Spans go to ``exporter`` as ``library`` makes them. What it leaves wrapped at its end would count a later stream twice."""
    from openai.resources.chat.completions import Completions
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    plain, provider, instrumentor = Completions.create, TracerProvider(), import_module(library).OpenAIInstrumentor()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        Completions.create = plain  # type: ignore[method-assign]
        provider.shutdown()


async def spans_of(library: str, path: str = "/v1", **call: Any) -> tuple[list[Any], Any]:
    """The spans and the answer, or the error, of a call by the OpenAI SDK to the fake engine."""
    from openai import APIStatusError, OpenAI
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    async with FakeEngine().serve() as url:
        with instrumented(library, exporter):

            def ask() -> Any:
                with OpenAI(base_url=f"{url}{path}", api_key="x", max_retries=0) as client:
                    try:
                        return client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, "tools": TOOLS, **call})
                    except APIStatusError as error:
                        return error

            answer = await asyncio.to_thread(ask)
            return list(exporter.get_finished_spans()), answer


def encoded(spans: list[Any]) -> bytes:
    """As the OTLP exporter sends them."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    return bytes(encode_spans(spans).SerializeToString())


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_call_seen_by_a_public_instrumentation_becomes_the_event_it_was(
    proxy: Proxy, socket_path: Path, library: str
) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    spans, answer = await spans_of(library, temperature=0.5)
    key = proxy.key("agent")
    for _ in range(2):  # exported again, as exporters do after a lost answer
        response = post(socket_path, key, encoded(spans), "application/x-protobuf")
        assert response.status_code == 200, response.text
        assert not ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans
    (made,) = stored(proxy)
    assert (made.kind, made.boundary, made.tenant, made.agent) == ("model_call", "otlp", "acme", "triage")
    assert [message["role"] for message in made.o["messages"]] == ["system", "user", "assistant", "tool"]
    assert made.o["messages"][1]["content"] == "it is <PASSWORD_1>" and made.o["messages"][3]["content"] == "42"
    (asked,) = made.o["messages"][2]["tool_calls"]
    assert (asked["id"], asked["function"]["name"], asked["function"]["arguments"]) == ("c1", "f", "{}")
    assert made.o["tools"][0].get("function", made.o["tools"][0])["name"] == "f"
    assert made.a["messages"][0]["content"] == answer.choices[0].message.content
    assert made.y["finish_reasons"] == [answer.choices[0].finish_reason]
    assert made.m["usage"]["prompt_tokens"] == answer.usage.prompt_tokens
    assert made.m["usage"]["completion_tokens"] == answer.usage.completion_tokens
    assert made.m["model"] == "tiny" and made.m["completion_id"] == answer.id and made.m["request"]["temperature"] == 0.5
    assert made.session_id == f"trace-{spans[0].context.trace_id:032x}" and made.ended_at > made.started_at
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_failed_call_is_an_error(proxy: Proxy, socket_path: Path, library: str) -> None:
    spans, error = await spans_of(library, path="/none")
    assert error.status_code == 404
    assert post(socket_path, proxy.key("agent"), encoded(spans), "application/x-protobuf").status_code == 200
    (made,) = stored(proxy)
    assert made.y["is_error"] and made.y["error"]["type"]


def streamed(library: str, exporter: Any, url: str) -> str:
    """The text of a streamed call by the OpenAI SDK, whose span goes to ``exporter`` when it ends."""
    from openai import OpenAI

    with instrumented(library, exporter), OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_stream_goes_to_the_store_by_the_sdks_own_exporter_through_the_gateway(
    proxy: Proxy, gateway_key: str, gateway_url: str, library: str
) -> None:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    headers = {"authorization": f"Bearer {gateway_key}"}
    exporter = OTLPSpanExporter(f"{gateway_url}/v1/traces", headers=headers, compression=Compression.Gzip)
    async with FakeEngine().serve() as engine_url:
        text = await asyncio.to_thread(streamed, library, exporter, engine_url)
    (made,) = stored(proxy)
    assert (made.kind, made.boundary, made.tenant, made.agent) == ("model_call", "otlp", "acme", "triage")
    assert [message["role"] for message in made.o["messages"]] == ["system", "user", "assistant", "tool"]
    assert made.o["messages"][1]["content"] == "it is <PASSWORD_1>"
    assert text and [message["content"] for message in made.a["messages"]] == [text.replace(SECRET_WORD, "<PASSWORD_1>")]
    assert made.y["finish_reasons"] == ["stop"] and made.m["model"] == "tiny" and made.ended_at > made.started_at
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()
