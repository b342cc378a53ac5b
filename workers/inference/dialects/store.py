"""The bound of what `/v1/responses` keeps: SGLang never forgets a response or a conversation.

Owns a mapping in place of SGLang's `msg_store` that drops the conversation unused for longest, with its response. Items are
shared between the turns of a conversation and counted once. Lives in the engine's memory and dies with it: nothing is on disk.
Not owned: who may read a response (the gateway checks the id's MAC). Place in the path: step 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

import msgspec

MAX_RESPONSES: Final = 8192
MAX_BYTES: Final = 128 << 20


class History(MutableMapping[str, list[Any]]):
    """Response id → the items of its conversation up to and with it. `on_evict` gets the id of each that is dropped."""

    def __init__(self, on_evict: Callable[[str], object], max_responses: int = MAX_RESPONSES, max_bytes: int = MAX_BYTES) -> None:
        self.size_bytes = 0
        self._on_evict = on_evict
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._items: OrderedDict[str, list[Any]] = OrderedDict()
        self._sizes: dict[int, list[int]] = {}  # identity of an item → [references, bytes]

    def __getitem__(self, response_id: str) -> list[Any]:
        self._items.move_to_end(response_id)
        return self._items[response_id]

    def __setitem__(self, response_id: str, items: list[Any]) -> None:
        for item in items:  # before the old ones are let go: they may be the same
            entry = self._sizes.setdefault(id(item), [0, 0])
            if not entry[0]:
                entry[1] = _size(item)
                self.size_bytes += entry[1]
            entry[0] += 1
        self._release(self._items.pop(response_id, []))
        self._items[response_id] = items
        while len(self._items) > 1 and (len(self._items) > self._max_responses or self.size_bytes > self._max_bytes):
            oldest = next(iter(self._items))
            del self[oldest]
            self._on_evict(oldest)

    def __delitem__(self, response_id: str) -> None:
        self._release(self._items.pop(response_id))

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def _release(self, items: list[Any]) -> None:
        for item in items:
            entry = self._sizes[id(item)]
            entry[0] -= 1
            if not entry[0]:
                self.size_bytes -= entry[1]
                del self._sizes[id(item)]


def _size(item: Any) -> int:
    return len(msgspec.json.encode(item, enc_hook=str))
