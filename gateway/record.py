"""Takes the engine's record out of an answer, and says from where on the rest must be held.

The engine puts one event, ``event: headrace.record``, before the chunk that carries the last finish_reason, or one last field into
a JSON answer (see ``workers/inference/plugin.py``). Every other byte passes as it came. An answer without a record is held from
the dialect's own end on (``data: [DONE]``, …), so that no agent has the end of an answer that is not yet durable.
"""

_BOUNDARY = b"\n\n"
_RECORD = b"event: headrace.record\n"
_FIELD = b',"headrace_record":'


class StreamSplitter:
    """Splits a stream of server-sent events at the first event that must be held.

    ``held_from`` are the beginnings of those events, each behind the boundary before it.

    Example:
        >>> splitter = StreamSplitter((b"\\n\\nevent: headrace.record\\n", b"\\n\\ndata: [DONE]"))
        >>> splitter.feed(b"data: 1\\n\\neve"), splitter.feed(b"nt: headrace.record\\ndata: {}\\n\\ndata: [DONE]\\n\\n")
        (b'data: 1\\n\\n', b'')
        >>> splitter.finish()
        (b'data: [DONE]\\n\\n', b'{}')
    """

    def __init__(self, held_from: tuple[bytes, ...]) -> None:
        self._patterns = held_from
        self._markers = [pattern[len(_BOUNDARY) :] for pattern in held_from]
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
        return self._tail == _BOUNDARY

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` that may go to the agent now. At most an unfinished marker stays behind."""
        if self._held is not None:
            self._held.append(data)
            return b""
        if not self._carry and self._tail == _BOUNDARY and data.endswith(_BOUNDARY) and not self._has_marker(data):
            return data  # whole events, as nearly always
        window = self._tail + self._carry + data
        cut = min((at for at in map(window.find, self._patterns) if at >= 0), default=-1)
        if cut >= 0:
            cut += len(_BOUNDARY)
            self._held = [window[cut:]]
        else:
            cut = self._marker_start(window)
        passed = window[len(self._tail) : cut]
        self._carry = b"" if self._held is not None else window[cut:]
        self._tail = window[:cut][-len(_BOUNDARY) :]
        return passed

    def _has_marker(self, data: bytes) -> bool:
        for marker in self._markers:  # noqa: SIM110  # half the time of a generator, for each event
            if marker in data:
                return True
        return False

    def _marker_start(self, window: bytes) -> int:
        """Where a marker may begin that ``window`` breaks off, else the window's length."""
        boundary = window.rfind(_BOUNDARY)
        start = boundary + len(_BOUNDARY)
        if boundary >= 0 and start < len(window) and any(pattern.startswith(window[boundary:]) for pattern in self._patterns):
            return start
        return len(window)

    def finish(self) -> tuple[bytes, bytes]:
        """(held bytes without the record event, the record's JSON) once the stream has ended; empty where there is none."""
        held = b"".join(self._held) if self._held is not None else self._carry
        if not held.startswith(_RECORD):
            return held, b""
        end = held.find(_BOUNDARY)
        if end < 0:
            return b"", b""
        record = held[len(_RECORD) : end].removeprefix(b"data: ")
        return held[end + len(_BOUNDARY) :], record


def split_json(body: bytes) -> tuple[bytes, bytes]:
    """(the agent's body, the record's JSON) of a JSON answer; the body as it is and empty if there is no record."""
    at = body.rfind(_FIELD)
    end = body.rfind(b"}")
    if at < 0 or end < at:
        return body, b""
    return body[:at] + body[end:], body[at + len(_FIELD) : end]
