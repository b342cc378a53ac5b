"""The fair queue: waiting calls by tenant, then by key, each served in turn. Bookkeeping only; who waits is ``admission``'s."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.admission.meter import Meter


@dataclass(slots=True, frozen=True)
class QueueBounds:
    """``max_wait_s`` does not count while the workers swap weights; ``max_swap_wait_s`` bounds the whole wait."""

    max_waiting: int = 1024
    max_waiting_per_key: int = 256
    max_wait_s: float = 60.0
    max_swap_wait_s: float = 300.0
    tenant_max_concurrency: int | None = None


@dataclass(slots=True, eq=False)
class Waiter:
    """A call that waits ``since`` a moment of the loop's clock, until ``deadline`` (moved on during swaps), never past ``latest``.

    ``turn`` resolves when it may go; ``placed`` says that its place is taken for it by then.
    """

    tenant: str
    key_id: str
    meters: tuple[Meter, ...]
    turn: asyncio.Future[None]
    since: float
    deadline: float
    latest: float
    placed: bool = False


class FairQueue:
    """Round-robin over tenants, within a tenant over its keys, within a key first come, first served.

    Example:
        >>> queue.push(waiter); queue.pop(lambda waiter: True) is waiter
        True
    """

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, deque[Waiter]]] = OrderedDict()
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def __iter__(self) -> Iterator[Waiter]:
        for keys in self._tenants.values():
            for line in keys.values():
                yield from line

    def num_of(self, tenant: str, key_id: str) -> int:
        """How many calls of a key wait."""
        keys = self._tenants.get(tenant)
        return len(keys.get(key_id, ())) if keys is not None else 0

    def push(self, waiter: Waiter) -> None:
        """Wait at the end of the key's line; a tenant or key that is new comes after those whose turn is due."""
        self._tenants.setdefault(waiter.tenant, OrderedDict()).setdefault(waiter.key_id, deque()).append(waiter)
        self._num += 1

    def pop(self, may_go: Callable[[Waiter], bool]) -> Waiter | None:
        """The next that ``may_go``, asked of the first of each key; its tenant and key go to the end of their rounds."""
        for tenant, keys in self._tenants.items():
            for key_id, line in keys.items():
                if may_go(line[0]):
                    waiter = line.popleft()
                    keys.move_to_end(key_id)
                    self._tenants.move_to_end(tenant)
                    self._drop_empty(tenant, key_id)
                    return waiter
        return None

    def remove(self, waiter: Waiter) -> None:
        """Take out a call that no longer waits. One that is not here is none of this queue's."""
        keys = self._tenants.get(waiter.tenant)
        line = keys.get(waiter.key_id) if keys is not None else None
        if line is not None and waiter in line:
            line.remove(waiter)
            self._drop_empty(waiter.tenant, waiter.key_id)

    def _drop_empty(self, tenant: str, key_id: str) -> None:
        self._num -= 1
        keys = self._tenants[tenant]
        if not keys[key_id]:
            del keys[key_id]
        if not keys:
            del self._tenants[tenant]
