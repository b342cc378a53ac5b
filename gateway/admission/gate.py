"""The way into the workers of one model: how many calls they take at once, how many run, who waits.

Several processes share the capacity: each sees the others' counts on the board. While another process has calls waiting, one that
holds more than its share lets them go first.
"""

from collections.abc import Sequence

from gateway.admission.board import Board
from gateway.admission.queue import FairQueue
from router.workers import Health, Worker


class Gate:
    """``capacity`` None: as many as come. ``swapping``: the workers answer but are not ready, as during a weight swap."""

    def __init__(self, board: Board, name: str) -> None:
        self.capacity: int | None = None
        self.swapping = False
        self.queue = FairQueue()
        self.running = 0
        self._board = board
        slot = board.slot(f"gate:{name}")
        self._slot, self._running_cell, self._waiting_cell = slot, board.cell(slot), board.cell(slot, 1)

    def watch(self, workers: Sequence[Worker]) -> None:
        """Learn from the model's ``workers``. Where none answers, calls pass and are told so by the relay."""
        able = [worker for worker in workers if worker.health is not Health.DOWN]
        most = [worker.max_running for worker in able if worker.max_running is not None]
        self.capacity = sum(most) if able and len(most) == len(able) else None
        self.swapping = bool(able) and all(worker.health is Health.WAITING for worker in able)

    def start(self) -> None:
        """One more call runs."""
        self.running += 1
        self._board.ints[self._running_cell] = self.running

    def stop(self) -> None:
        """One call less runs."""
        self.running -= 1
        self._board.ints[self._running_cell] = self.running

    def show_waiting(self) -> None:
        """Let the other processes see how many wait here."""
        self._board.ints[self._waiting_cell] = len(self.queue)

    @property
    def others_wait(self) -> bool:
        """Whether another process has calls waiting for these workers."""
        return not self._board.alone and self._board.total(self._slot, 1) > self._board.ints[self._waiting_cell]

    @property
    def open(self) -> bool:
        """Whether one more call may run now."""
        if self.capacity is None:
            return True
        if self._board.alone:
            return self.running < self.capacity
        if self._board.total(self._slot) >= self.capacity:
            return False
        if not self.others_wait:
            return True
        num_waiting = self._board.num_with(self._slot, 1) + (not self.queue)
        return self.running < max(1, self.capacity // num_waiting)
