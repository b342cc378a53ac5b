"""Heads of answers on the wire."""

from http import HTTPStatus

from gateway.admission import Ticket
from gateway.call import Call
from gateway.headers import agent_headers
from gateway.upstream.connection import Head, Headers

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES: dict[int, bytes] = {int(status): b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


def encode_lines(headers: Headers) -> bytes:
    """``headers`` as lines."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def agent_lines(head: Head) -> bytes:
    """The lines of the engine's ``head`` that the agent sees; encoded once, since many answers of a connection share one head."""
    if head.relayed is None:
        head.relayed = encode_lines(agent_headers(head.headers))
    return head.relayed


def own_lines(call: Call, ticket: Ticket | None) -> bytes:
    """The lines that every answer to ``call`` carries."""
    lines = f"x-headrace-event: {call.event_id}\r\nx-headrace-session: {call.session.session_id}\r\n".encode()
    if ticket is not None and ticket.meters:
        lines += encode_lines(ticket.headers())
    return lines


def encode_answer(status: int, lines: bytes, length: int | None, body: bytes, framed: bool, close: bool) -> bytes:
    """Head and ``body``. ``length`` None: what follows comes in chunks if ``framed``, else up to the close."""
    first = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    end = b"connection: close\r\n\r\n" if close else b"\r\n"
    if length is not None:
        return b"".join((first, lines, b"content-length: %d\r\n" % length, end, body))
    return b"".join((first, lines, b"transfer-encoding: chunked\r\n" if framed else b"", end))


def encode_chunk(data: bytes) -> bytes:
    """``data``, at least one byte, as a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
