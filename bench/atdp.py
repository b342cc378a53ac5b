"""Measures events that do not come over the model gateway: taking them in, queueing them at an agent, exporting them.

``python -m bench.atdp [--quick]`` ends with one JSON line, kept in ``bench/results/atdp.json``:

- ``events_s``, ``spans_s``: posted events and OTLP spans a second, by the clock: judged, redacted with every rule on, placed, put
  in the ledger, stored in SQLite with full sync.
- ``record_us``: what ``EventClient.record`` costs an agent, with its buffer on disk.
- ``tool_results_us``: CPU, finding the tool results in a history of 40 messages, for every model call in the drain.
- ``export_events_s``: events a second out of the store as JSON lines; ``export_peak_mb``: memory that it took for that.
"""

import argparse
import json
import tempfile
import time
import tracemalloc
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from atdp.client import EventClient
from atdp.exports.jsonl import event_line
from atdp.ids import new_event_id
from dataproxy.client.types import Consent
from dataproxy.digests import KeyedDigests
from dataproxy.ingest.judge import Sender
from dataproxy.ingest.otel.bodies import body_of
from dataproxy.ingest.otel.wire import JSON, read_spans
from dataproxy.ingest.take import take_bodies, take_raw
from dataproxy.ingest.tool_results import tool_results
from dataproxy.keyfiles import ensure
from dataproxy.services import Services, build_services
from dataproxy.settings import Settings
from dataproxy.store.consents import add_consent
from dataproxy.store.exporting import ExportFilter, exported_events
from dataproxy.store.scope import EVERYBODY

RESULT = Path(__file__).parent / "results" / "atdp.json"
SENDER = Sender("acme", "desk", "key-0")
TEXT = "Order A-7 of jo@example.org was shipped on Tuesday; call +1 415 555 0100 when it arrives. " * 4


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m bench.atdp", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under half a minute")
    num_batches = 4 if parser.parse_args().quick else 20
    with tempfile.TemporaryDirectory() as directory:
        services = _services(Path(directory))
        result: dict[str, Any] = {
            "bench": "atdp",
            "events_s": events_s(services, num_batches),
            "spans_s": spans_s(services, num_batches),
        }
        result["record_us"] = record_us(Path(directory) / "buffer")
        result["tool_results_us"] = tool_results_us(services)
        result |= export(services)
        services.database.close()
    line = json.dumps(result)
    RESULT.write_text(line + "\n")
    print(line)


def events_s(services: Services, num_batches: int) -> int:
    """Batches of 250 events of about 400 characters."""
    batches = [[_event(n) for n in range(250)] for _ in range(num_batches + 1)]
    take_raw(services, SENDER, batches.pop())
    began = time.perf_counter()
    for batch in batches:
        assert all(receipt.status == "stored" for receipt in take_raw(services, SENDER, batch))
    return round(num_batches * 250 / (time.perf_counter() - began))


def spans_s(services: Services, num_batches: int) -> int:
    """Requests of 100 spans of model calls, in JSON, decoding included."""
    bodies = [_spans(100) for _ in range(num_batches)]
    began = time.perf_counter()
    for body in bodies:
        made = [found for span in read_spans(body, JSON) if (found := body_of(span)) is not None]
        assert all(receipt.status == "stored" for receipt in take_bodies(services, SENDER, made))
    return round(num_batches * 100 / (time.perf_counter() - began))


def record_us(buffer: Path) -> float:
    """Nobody listens where the client sends to, so all it does is queue."""
    client = EventClient("http://127.0.0.1:9", "hr_x", buffer=buffer, interval_s=600)
    began = time.perf_counter()
    for _ in range(5000):
        client.record("retrieval", a={"query": TEXT})
    return round((time.perf_counter() - began) / 5000 * 1e6, 1)


@dataclass(slots=True, frozen=True)
class _Named:
    """What ``tool_results`` reads of a stored event."""

    o: dict[str, Any]


@dataclass(slots=True, frozen=True)
class _Part:
    digest: bytes


@dataclass(slots=True, frozen=True)
class _Stored:
    event: _Named
    contents: list[_Part]


def tool_results_us(services: Services) -> float:
    """An agent that has called twelve tools."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": TEXT}, {"role": "user", "content": TEXT}]
    for n in range(12):
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "lookup", "arguments": '{"order": "A-7"}'}}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"call_{n}", "content": TEXT}, {"role": "user", "content": "go on"}]
    digests: KeyedDigests = services.digests("acme")
    names = [digests.of(b"content", b"%d" % i) for i in range(len(messages))]
    stored: Any = _Stored(_Named({"messages": [name.hex() for name in names]}), [_Part(name) for name in names])
    parsed: Any = _Parsed({"messages": messages})
    began = time.process_time()
    for _ in range(2000):
        assert len(tool_results(parsed, messages, stored, digests)) == 12
    return round((time.process_time() - began) / 2000 * 1e6, 1)


@dataclass(slots=True, frozen=True)
class _Parsed:
    request: dict[str, Any]


def export(services: Services) -> dict[str, Any]:
    """Everything that was taken in, out again."""
    wanted = ExportFilter("acme")
    began = time.perf_counter()
    num = sum(1 for item in exported_events(services.database, EVERYBODY, wanted) if event_line(item))
    speed = round(num / (time.perf_counter() - began))
    tracemalloc.start()
    for item in exported_events(services.database, EVERYBODY, wanted):
        event_line(item)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"export_events_s": speed, "export_num": num, "export_peak_mb": round(peak / 2**20, 1)}


def _services(directory: Path) -> Services:
    files = ensure(directory / "config")
    services = build_services(Settings(data_dir=directory / "data", config_dir=directory / "config"), files)
    with services.database.write() as connection:
        add_consent(connection, Consent("acme", True, True, "a measurement"), "key-0")
    return services


def _event(number: int) -> msgspec.Raw:
    body = {
        "event_id": str(uuid.UUID(new_event_id())),
        "kind": "retrieval",
        "started_at": 1_000_000,
        "ended_at": 2_000_000,
        "session_id": f"s{number % 16}",
        "a": {"query": "where is my order?"},
        "y": {"documents": [{"id": number, "text": TEXT}]},
    }
    return msgspec.Raw(msgspec.json.encode(body))


def _spans(num: int) -> bytes:
    trace = uuid.uuid4().hex
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": TEXT}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]
    times = {"startTimeUnixNano": "1000000000", "endTimeUnixNano": "2000000000"}
    spans = [{"traceId": trace, "spanId": f"{n + 1:016x}", "name": "chat", "attributes": attributes, **times} for n in range(num)]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


if __name__ == "__main__":
    main()
