"""What was made lately, kept by keyed digests. Place: behind the detector, so that a resent text is looked at once."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The ``capacity`` entries used last. Not for use from two threads at once."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """What was put under ``key``, if it is still there."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, value: T) -> None:
        """Keep ``value`` under ``key``; the entry that was not used for longest gives way."""
        self._kept[key] = value
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
