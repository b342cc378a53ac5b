"""Server-sent events (WHATWG HTML, 9.2.6) out of a recorded stream: the data of each event, in order.

The whole body is at hand, so a character split over chunks is whole here. Comments, ``event:`` and unknown fields are passed over.
"""

from collections.abc import Iterator


def event_data(body: bytes) -> Iterator[bytes]:
    """The data of each event in ``body``; lines end in LF, CR or CRLF; an event cut off at the end is given too."""
    for event in with_line_feeds(body).split(b"\n\n"):
        if event.startswith(b"data: ") and event.find(b"\n", 6) < 0:  # as nearly always
            yield event[6:]
        else:
            yield from _data_lines(event)


def with_line_feeds(body: bytes) -> bytes:
    """``body`` without its byte order mark, its lines ended by LF alone."""
    text = body.removeprefix(b"\xef\xbb\xbf")
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def _data_lines(event: bytes) -> Iterator[bytes]:
    lines = []
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif line == b"data":
            lines.append(b"")
    if lines:
        yield b"\n".join(lines)
