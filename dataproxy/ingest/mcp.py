"""Exchanges with MCP servers as events: a tool call, a resource read, or the error that another request met."""

from dataclasses import replace
from typing import Any, Final

import msgspec

from atdp.events import Event
from dataproxy.assemble.calls import NewCall
from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.digests import KeyedDigests
from dataproxy.drain.redaction import Redactor
from dataproxy.errors import Unprocessable
from dataproxy.ingest.govern import govern
from dataproxy.store.events import StoredEvent

DIALECT: Final = "mcp"
_KINDS: Final = {"tools/call": "tool_call", "resources/read": "retrieval"}
_BYTES: Final = frozenset(("data", "blob"))


def mcp_event(request: RequestHalf, response: ResponseHalf | None, redactor: Redactor, digests: KeyedDigests) -> StoredEvent:
    """The redacted event of one exchange; ``response`` None: its gateway died before the answer was durable.

    Raises:
        Unprocessable: the request is no JSON-RPC.
        RedactionFailed: it cannot be redacted for certain.
    """
    try:
        asked = msgspec.json.decode(request.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unprocessable("request_not_json") from error
    method, params = str(asked.get("method", "")), asked.get("params")
    ended_us = max(response.ended_us, request.started_us) if response is not None else request.started_us
    event = Event(
        event_id=request.event_id,
        tenant=request.tenant,
        agent=request.agent,
        session_id=request.session_id,
        kind=_KINDS.get(method, "mcp"),
        started_at=request.started_us,
        ended_at=ended_us,
        boundary="mcp",
        a={"method": method, **_params(params if isinstance(params, dict) else {})},
        y=_outcome(response, digests),
        m={
            "server": request.model,
            "key_id": request.key_id,
            "headers": request.headers,
            "latency_us": {"total": ended_us - request.started_us},
        },
    )
    stored = govern(event, redactor, digests).stored
    return replace(stored, model=request.model, delivery=str(event.y["delivery"]))


def mcp_call(request: RequestHalf, stored: StoredEvent) -> NewCall:
    """What placing it needs; without a session it stands alone."""
    event = stored.event
    return NewCall(
        tenant=event.tenant,
        agent=event.agent,
        event_id=event.event_id,
        session_id=event.session_id,
        session_source=request.session_source,
        routing_name="",
        started_us=event.started_at,
        ended_us=event.ended_at,
        prefixes=[],
        token_prefixes=[],
        continues="",
        ends={},
        prompt_ids=None,
        borders={},
        num_eligible=0,
        last_version=-1,
        newest_version=-1,
    )


def _params(params: dict[str, Any]) -> dict[str, Any]:
    known = {name: params[name] for name in ("name", "arguments", "uri") if name in params}
    rest = {name: value for name, value in params.items() if name not in known and name != "_meta"}
    return known | ({"params": rest} if rest else {})


def _outcome(response: ResponseHalf | None, digests: KeyedDigests) -> dict[str, Any]:
    if response is None:
        return {"delivery": "incomplete", "is_error": True, "error": {"type": "incomplete"}}
    y: dict[str, Any] = {"status": response.status, "delivery": response.delivery}
    try:
        answer = msgspec.json.decode(response.body, type=dict[str, Any]) if response.body else {}
    except msgspec.DecodeError:
        answer = {}
        y["num_bytes"] = len(response.body)  # longer than what is kept
    if isinstance(error := answer.get("error"), dict):
        return y | {"is_error": True, "error": {"type": f"jsonrpc {error.get('code')}", **_without_bytes(error, digests)}}
    if "result" not in answer:
        return y | {"is_error": True, "error": {"type": response.error or response.delivery}}
    result = answer["result"]
    failed = isinstance(result, dict) and result.get("isError") is True
    return y | {"is_error": failed, "result": _without_bytes(result, digests)}


def _without_bytes(value: Any, digests: KeyedDigests) -> Any:
    """Images, sounds and blobs by a keyed digest: no rule for texts can read them."""
    if isinstance(value, list):
        return [_without_bytes(item, digests) for item in value]
    if not isinstance(value, dict):
        return value
    is_media = value.get("type") in ("image", "audio") or "blob" in value
    return {
        name: f"digest={digests.of(b'payload', item.encode()).hex()};size={len(item) * 3 // 4}"
        if is_media and name in _BYTES and isinstance(item, str)
        else _without_bytes(item, digests)
        for name, item in value.items()
    }
