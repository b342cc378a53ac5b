"""A stream of events with values in the place of surrogates. An event that holds none passes byte for byte."""

import copy
import re
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from gateway.pseudonyms.restore import Pieces, Restorer
from gateway.pseudonyms.slots import Event, Slot, StreamForm

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = b"data:"


class StreamRestorer:
    """Takes the engine's bytes as they come, gives whole events as the agent gets them."""

    def __init__(self, restorer: Restorer, form: StreamForm) -> None:
        self._restorer = restorer
        self._form = form
        self._buffer = b""
        self._texts: dict[Hashable, Pieces] = {}
        self._held: set[Hashable] = set()
        """Texts of which something may be held back."""
        self._last: dict[Hashable, tuple[list[bytes], Event, Slot]] = {}
        self._num_added = 0

    def feed(self, data: bytes) -> bytes:
        """The events that ``data`` completes."""
        self._buffer += data
        made, at = [], 0
        for boundary in _BOUNDARY.finditer(self._buffer):
            made.append(self._event(self._buffer[at : boundary.start()], boundary[0]))
            at = boundary.end()
        self._buffer = self._buffer[at:]
        return b"".join(made)

    def end(self) -> bytes:
        """An event that nothing ended."""
        rest, self._buffer = self._buffer, b""
        return self._event(rest, b"") if rest else b""

    def _event(self, raw: bytes, boundary: bytes) -> bytes:
        lines = raw.splitlines()
        data = b"\n".join(line[len(_DATA) :].strip() for line in lines if line.startswith(_DATA))
        try:
            event = msgspec.json.decode(data) if data.startswith(b"{") else None
        except msgspec.DecodeError:
            event = None
        if not isinstance(event, dict):
            return raw + boundary
        heads = [line for line in lines if not line.startswith(_DATA)]
        before = b"".join(self._rest(event))
        changed = bool(self._num_added) and "sequence_number" in event
        for slot in self._form.slots(event):
            changed |= self._piece(heads, event, slot)
        changed |= self._end_in(event)
        if self._form.is_whole(event) or "error" in event:
            restored = self._restorer.value(event)
            changed, event = changed or restored != event, restored
        return before + (self._encoded(heads, event) if changed else raw + boundary)

    def _piece(self, heads: list[bytes], event: Event, slot: Slot) -> bool:
        given = slot.holder[slot.name]
        if slot.text is None:
            slot.holder[slot.name] = self._restorer.whole(given)
            return bool(slot.holder[slot.name] != given)
        pieces = self._texts.get(slot.text)
        if pieces is None:
            pieces = self._texts[slot.text] = Pieces(self._restorer)
        made = slot.holder[slot.name] = pieces.feed(given)
        self._held.add(slot.text)
        self._last[slot.text] = heads, event, slot
        return bool(made != given)

    def _end_in(self, event: Event) -> bool:
        """Put what is left of texts that end here into the event itself, where it has a place for them."""
        changed = False
        for ending in list(self._form.endings(event, self._held)):
            if ending.place is not None and (rest := self._finished(ending.text)):
                ending.place(rest)
                changed = True
        return changed

    def _rest(self, event: Event) -> Iterator[bytes]:
        """What is left of texts that end here, as events before this one, each like the last piece of its text."""
        for ending in list(self._form.endings(event, self._held)):
            if ending.place is None:
                heads, last, slot = self._last[ending.text]
                if rest := self._finished(ending.text):
                    slot.holder[slot.name] = rest
                    if "sequence_number" in last:
                        self._num_added += 1
                    yield self._encoded(heads, copy.deepcopy(last))

    def _finished(self, text: Hashable) -> str:
        self._held.discard(text)
        self._last.pop(text, None)
        return self._texts.pop(text).end()

    def _encoded(self, heads: list[bytes], event: Event) -> bytes:
        number: Any = event.get("sequence_number")
        if self._num_added and isinstance(number, int):
            event = {**event, "sequence_number": number + self._num_added}
        return b"\n".join((*heads, b"data: " + msgspec.json.encode(event))) + b"\n\n"
