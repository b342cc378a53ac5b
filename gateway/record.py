"""Takes the engine's record out of an answer, and says from where on the rest must be held.

The engine puts one event, ``event: headrace.record``, before the chunk that carries the last finish_reason, or one last field into
a JSON answer (see ``workers/inference/plugin.py``). Every other byte passes as it came. An answer without a record is held from
the dialect's own end on (``data: [DONE]``, …), so that no agent has the end of an answer that is not yet durable.
"""

_BOUNDARY = b"\n\n"
_BOUNDARIES = (_BOUNDARY, b"\n\r\n", b"\r\r")
"""An empty line, in each of the three line ends that server-sent events may have."""
_MAX_BOUNDARY = 3
_RECORD = b"event: headrace.record"
_FIELD = b',"headrace_record":'


class StreamSplitter:
    """Splits a stream of server-sent events at the first event that must be held.

    ``held_from`` are the beginnings of those events, without a line end.

    Example:
        >>> splitter = StreamSplitter((b"event: headrace.record", b"data: [DONE]"))
        >>> splitter.feed(b"data: 1\\n\\neve"), splitter.feed(b"nt: headrace.record\\ndata: {}\\n\\ndata: [DONE]\\n\\n")
        (b'data: 1\\n\\n', b'')
        >>> splitter.finish()
        (b'data: [DONE]\\n\\n', b'{}')
    """

    def __init__(self, held_from: tuple[bytes, ...]) -> None:
        self._markers = held_from
        self._tail = _BOUNDARY
        self._carry = b""
        self._held: list[bytes] | None = None

    @property
    def holding(self) -> bool:
        """Whether the held part has begun."""
        return self._held is not None

    @property
    def at_boundary(self) -> bool:
        """Whether what was let through ends with a whole event."""
        return self._tail.endswith(_BOUNDARIES)

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` that may go to the agent now. At most an unfinished marker stays behind."""
        if self._held is not None:
            self._held.append(data)
            return b""
        if not self._carry and self._tail == _BOUNDARY and data.endswith(_BOUNDARY) and not self._has_marker(data):
            return data  # whole events, as nearly always
        window = self._tail + self._carry + data
        cut = self._first_marker(window) if self._has_marker(window) else -1
        if cut >= 0:
            self._held = [window[cut:]]
        else:
            cut = self._marker_start(window)
        passed = window[len(self._tail) : cut]
        self._carry = b"" if self._held is not None else window[cut:]
        tail = window[:cut][-_MAX_BOUNDARY:]
        self._tail = _BOUNDARY if tail.endswith(_BOUNDARY) else tail
        return passed

    def _has_marker(self, data: bytes) -> bool:
        for marker in self._markers:  # noqa: SIM110  # half the time of a generator, for each event
            if marker in data:
                return True
        return False

    def _first_marker(self, window: bytes) -> int:
        """Where the first event begins that must be held, or -1."""
        found = [
            at + len(boundary)
            for marker in self._markers
            for boundary in _BOUNDARIES
            if (at := window.find(boundary + marker)) >= 0
        ]
        return min(found, default=-1)

    def _marker_start(self, window: bytes) -> int:
        """Where a marker may begin that ``window`` breaks off, else the window's length."""
        at = window.rfind(_BOUNDARY)
        start = len(window) if at < 0 else at + len(_BOUNDARY)
        if b"\r" in window:
            start = max((at + len(one) for one in _BOUNDARIES if (at := window.rfind(one)) >= 0), default=start)
        begun = window[start:]
        return start if begun and any(marker.startswith(begun) for marker in self._markers) else len(window)

    def finish(self) -> tuple[bytes, bytes]:
        """(held bytes without the record event, the record's JSON) once the stream has ended; empty where there is none."""
        held = b"".join(self._held) if self._held is not None else self._carry
        if not held.startswith(_RECORD):
            return held, b""
        ends = [(at, at + len(boundary)) for boundary in _BOUNDARIES if (at := held.find(boundary)) >= 0]
        if not ends:
            return b"", b""
        end, rest = min(ends)
        return held[rest:], held[:end].partition(b"data: ")[2].rstrip(b"\r")


def split_json(body: bytes) -> tuple[bytes, bytes]:
    """(the agent's body, the record's JSON) of a JSON answer; the body as it is and empty if there is no record."""
    at = body.rfind(_FIELD)
    end = body.rfind(b"}")
    if at < 0 or end < at:
        return body, b""
    return body[:at] + body[end:], body[at + len(_FIELD) : end]
