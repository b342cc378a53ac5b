"""OTLP/HTTP: an ``ExportTraceServiceRequest`` in protobuf or JSON to spans, and the answer in the same encoding.

JSON is read by itself, not by protobuf's own reader: OTLP writes ids in hex there and lets senders add fields.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from dataproxy.errors import Refused
from dataproxy.ingest.otel.spans import OtelSpan, SpanEvent

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_ERRORS: Final = (2, "2", "STATUS_CODE_ERROR")


def read_spans(body: bytes, content_type: str) -> list[OtelSpan]:
    """The spans of a request.

    Raises:
        Refused: another encoding, or not what it says.
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == PROTOBUF:
            return list(_from_protobuf(ExportTraceServiceRequest.FromString(body)))
        if kind == JSON:
            return list(_from_json(msgspec.json.decode(body)))
    except (DecodeError, msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body is no OTLP trace request ({kind}): {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the body is no OTLP trace request ({kind}): a field is of another form") from error
    raise Refused(f"OTLP comes as {PROTOBUF} or {JSON}, not as {kind or 'nothing named'}")


def answer(content_type: str, num_rejected: int, message: str) -> tuple[bytes, str]:
    """(body, content type) of an ``ExportTraceServiceResponse``; a message without rejected spans is a warning."""
    if content_type.startswith(PROTOBUF):
        response = ExportTraceServiceResponse()
        if message:
            response.partial_success.rejected_spans, response.partial_success.error_message = num_rejected, message
        return response.SerializeToString(), PROTOBUF
    partial = {"partialSuccess": {"rejectedSpans": str(num_rejected), "errorMessage": message}} if message else {}
    return msgspec.json.encode(partial), JSON


def _from_protobuf(request: ExportTraceServiceRequest) -> Iterator[OtelSpan]:
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for one in group.scope_spans:
            scope = f"{one.scope.name} {one.scope.version}".strip()
            yield from (_span(span, resource, scope, one.schema_url or group.schema_url) for span in one.spans)


def _span(span: Span, resource: dict[str, Any], scope: str, schema_url: str) -> OtelSpan:
    return OtelSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_plain(span.attributes),
        events=[SpanEvent(event.name, _plain(event.attributes)) for event in span.events],
        error=span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
        resource=resource,
        scope=scope,
        schema_url=schema_url,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _plain(value.kvlist_value.values)
    if kind == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, kind) if kind else None


def _from_json(request: Any) -> Iterator[OtelSpan]:
    for group in request.get("resourceSpans", []):
        resource = _plain_json(group.get("resource", {}).get("attributes", []))
        for one in group.get("scopeSpans", []):
            named = one.get("scope", {})
            scope = f"{named.get('name', '')} {named.get('version', '')}".strip()
            schema_url = one.get("schemaUrl") or group.get("schemaUrl", "")
            yield from (_span_of_json(span, resource, scope, schema_url) for span in one.get("spans", []))


def _span_of_json(span: dict[str, Any], resource: dict[str, Any], scope: str, schema_url: str) -> OtelSpan:
    status = span.get("status", {})
    return OtelSpan(
        trace_id=_hex(span["traceId"]),
        span_id=_hex(span["spanId"]),
        parent_id=_hex(span.get("parentSpanId") or ""),
        name=str(span.get("name", "")),
        start_ns=int(span["startTimeUnixNano"]),
        end_ns=int(span["endTimeUnixNano"]),
        attributes=_plain_json(span.get("attributes", [])),
        events=[
            SpanEvent(str(event.get("name", "")), _plain_json(event.get("attributes", []))) for event in span.get("events", [])
        ],
        error=str(status.get("message", "")) if status.get("code") in _ERRORS else None,
        resource=resource,
        scope=scope,
        schema_url=str(schema_url),
    )


def _hex(text: str) -> str:
    return bytes.fromhex(text).hex()


def _plain_json(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {str(pair["key"]): _value_of_json(pair.get("value") or {}) for pair in attributes}


def _value_of_json(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_value_of_json(item) for item in value["arrayValue"].get("values", [])]
    if "kvlistValue" in value:
        return _plain_json(value["kvlistValue"].get("values", []))
    return next(iter(value.values()), None)
