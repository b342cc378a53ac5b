"""Who may go to a worker now, who waits, who is told to come back. The relay asks before a call and says when it ends.

A call passes its key's rates and budget (beyond them it is refused at once), then waits in its model's fair queue for a place
within its key's and tenant's concurrency and the workers' capacity. The queue is bounded in length and in time; a swap of weights
stops its clock.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from gateway.admission.board import Board, BoardFull
from gateway.admission.gate import Gate
from gateway.admission.meter import Meter
from gateway.admission.queue import QueueBounds, Waiter
from gateway.admission.ticket import Ticket, charge, start, stop
from gateway.errors import Refused
from gateway.keys import Identity, KeyLimits
from router.workers import Worker

_PUMP_S = 0.01
"""How often waiting calls look for places that another process gave back."""
_MAX_RETRY_S = 30


class Admission:
    """One event loop owns it. Its clock calls ``watch`` when the workers were asked, and ``sweep`` a few times a second."""

    def __init__(self, board: Board, bounds: QueueBounds, clock: Callable[[], float] = time.time) -> None:
        self._board = board
        self._bounds = bounds
        self._clock = clock
        most = bounds.tenant_max_concurrency
        self._tenant_limits = None if most is None else KeyLimits(max_concurrency=most)
        self._meters: dict[str, Meter] = {}
        self._other = Ticket(Gate(board, ""))
        self._free: dict[str, Ticket] = {}
        self._num_waiting = 0
        self._swept_at: float | None = None
        self._pumping: asyncio.Task[None] | None = None

    @property
    def num_waiting(self) -> int:
        """Calls in the queues of this process."""
        return self._num_waiting

    def try_enter(self, identity: Identity, body_bytes: int, model: str = "") -> Ticket | None:
        """A place at once, or None where the call must ``enter`` and wait.

        Raises:
            Refused: 429, a rate or the budget of the key is used up.
        """
        ticket = self._free.get(model, self._other)
        gate = ticket.gate
        if identity.limits is None and self._tenant_limits is None:
            if gate.queue or not gate.open:
                return None
            gate.start()
            return ticket
        if gate.queue:
            return None
        meters = self._meters_of(identity)
        with self._board.locked():
            if not gate.open or any(meter.full for meter in meters):
                return None
            charged = charge(meters, body_bytes)
            start(gate, meters)
        return Ticket(gate, meters, charged)

    async def enter(self, identity: Identity, body_bytes: int, model: str = "") -> Ticket:
        """A place, as soon as it is this call's turn. Cancel it when the agent leaves: the call then leaves the queue.

        Raises:
            Refused: 429, a rate or the budget is used up, or the queue is full or too slow.
        """
        ticket = self.try_enter(identity, body_bytes, model)
        if ticket is not None:
            return ticket
        gate, meters = self._free.get(model, self._other).gate, self._meters_of(identity)
        self._require_room(gate, identity)
        with self._board.locked():
            charged = charge(meters, body_bytes)
        try:
            await self._wait(gate, identity, meters)
        except BaseException:
            with self._board.locked():
                for meter in meters:
                    meter.settle(charged, 0, served=False)
            raise
        return Ticket(gate, meters, charged)

    def leave(self, ticket: Ticket, num_tokens: int | None = None) -> None:
        """The call has ended, having used ``num_tokens`` (None: nobody knows, the estimate stands). The next may go."""
        if ticket.meters:
            with self._board.locked():
                stop(ticket.gate, ticket.meters)
                for meter in ticket.meters:
                    if num_tokens is not None:
                        meter.settle(ticket.charged, num_tokens)
        else:
            ticket.gate.stop()
        if self._num_waiting:
            self._pump()

    def watch(self, workers: Sequence[Worker]) -> None:
        """Learn the capacity for each model: what its workers say they run at once, waiting ones included, as they come back."""
        for model in {model for worker in workers for model in worker.models}:
            if model not in self._free:
                self._free[model] = Ticket(Gate(self._board, f"model:{model}"))
            self._free[model].gate.watch([worker for worker in workers if model in worker.models])
        self._pump()

    def sweep(self) -> None:
        """Refuse those who have waited too long, and let those go whose turn another process has made."""
        now = asyncio.get_running_loop().time()
        since, self._swept_at = now if self._swept_at is None else self._swept_at, now
        for gate in self._gates():
            for waiter in list(gate.queue):
                limit = waiter.deadline
                if gate.swapping:
                    waiter.deadline = min(limit + now - max(since, waiter.since), waiter.latest)
                    limit = waiter.latest
                if limit < now and not waiter.turn.done():
                    retry_after_s = self._retry_after_s(gate, now)
                    message = "the inference workers are busy and this call has waited as long as it may; try again"
                    waiter.turn.set_exception(Refused(429, "queue_timeout", message, retry_after_s=retry_after_s))
        self._board.sweep()
        self._pump()

    def close(self) -> None:
        """Give up this process's counts."""
        if self._pumping is not None:
            self._pumping.cancel()
        self._board.close()

    def _gates(self) -> list[Gate]:
        return [ticket.gate for ticket in (self._other, *self._free.values()) if ticket.gate.queue]

    def _meters_of(self, identity: Identity) -> tuple[Meter, ...]:
        wanted = ((f"key:{identity.key_id}", identity.limits), (f"tenant:{identity.tenant}", self._tenant_limits))
        return tuple(self._meter(name, limits) for name, limits in wanted if limits is not None)

    def _meter(self, name: str, limits: KeyLimits) -> Meter:
        meter = self._meters.get(name)
        if meter is None:
            try:
                meter = self._meters[name] = Meter(self._board, name, limits, self._clock)
            except BoardFull as error:
                raise Refused(503, "limits_full", f"{error}; restart the gateways to drop unused ones", retry_after_s=60) from error
        meter.limits = limits
        return meter

    def _require_room(self, gate: Gate, identity: Identity) -> None:
        mine = gate.queue.num_of(identity.tenant, identity.key_id)
        if self._num_waiting < self._bounds.max_waiting and mine < self._bounds.max_waiting_per_key:
            return
        whose = "of this key " if self._num_waiting < self._bounds.max_waiting else ""
        message = f"too many calls {whose}wait for the inference workers already; send fewer at once, or try again later"
        retry_after_s = self._retry_after_s(gate, asyncio.get_running_loop().time())
        raise Refused(429, "queue_full", message, retry_after_s=retry_after_s)

    def _retry_after_s(self, gate: Gate, now: float) -> int:
        """As long as the one that waits longest has waited: so long is the queue."""
        oldest = min((waiter.since for waiter in gate.queue), default=now)
        return min(max(1, math.ceil(now - oldest)), _MAX_RETRY_S)

    async def _wait(self, gate: Gate, identity: Identity, meters: tuple[Meter, ...]) -> None:
        loop, bounds = asyncio.get_running_loop(), self._bounds
        now = loop.time()
        turn: asyncio.Future[None] = loop.create_future()
        latest = now + max(bounds.max_wait_s, bounds.max_swap_wait_s)
        waiter = Waiter(identity.tenant, identity.key_id, meters, turn, now, now + bounds.max_wait_s, latest)
        gate.queue.push(waiter)
        self._count_waiting(gate, 1)
        self._pump()
        if not self._board.alone and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.create_task(self._keep_pumping())
        try:
            await turn
        except BaseException:
            if waiter.placed:
                with self._board.locked():
                    stop(gate, meters)
            else:
                gate.queue.remove(waiter)
                self._count_waiting(gate, -1)
            self._pump()
            raise

    def _count_waiting(self, gate: Gate, change: int) -> None:
        self._num_waiting += change
        gate.show_waiting()

    def _pump(self) -> None:
        """Let go whoever may, in turn."""
        for gate in self._gates():
            with self._board.locked():
                while gate.open and (waiter := gate.queue.pop(_may_go)) is not None:
                    start(gate, waiter.meters)
                    waiter.placed = True
                    waiter.turn.set_result(None)
                    self._count_waiting(gate, -1)

    async def _keep_pumping(self) -> None:
        while self._num_waiting:
            await asyncio.sleep(_PUMP_S)
            self._pump()


def _may_go(waiter: Waiter) -> bool:
    return not waiter.turn.done() and not any(meter.full for meter in waiter.meters)
