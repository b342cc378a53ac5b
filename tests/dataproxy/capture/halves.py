"""Halves of exchanges for tests of the journal."""

from dataproxy.capture import RequestHalf, ResponseHalf


def request_half(event_id: str, tenant: str = "acme", body: bytes = b'{"messages":[]}') -> RequestHalf:
    """A request half with everything but its id, tenant and body constant."""
    return RequestHalf(
        event_id=event_id,
        completion_id=f"chatcmpl-{event_id}",
        tenant=tenant,
        agent="triage",
        key_id="k1",
        session_id="s1",
        session_source="header",
        dialect="chat",
        path="/v1/chat/completions",
        model="tiny",
        body=body,
        headers={},
        started_us=1,
    )


def response_half(event_id: str, body: bytes = b"{}", record: bytes = b"") -> ResponseHalf:
    """A complete answer."""
    return ResponseHalf(
        event_id=event_id,
        status=200,
        body=body,
        record=record,
        stream=False,
        delivery="complete",
        worker="w1",
        first_byte_us=2,
        ended_us=3,
    )
