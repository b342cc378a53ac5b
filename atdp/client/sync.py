"""The blocking client: ``record`` only queues; a thread of its own sends, and goes on until everything has a receipt."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from atdp.client.disk import DiskQueue
from atdp.client.errors import Denied, NotSent
from atdp.client.queues import MemoryQueue, Queue
from atdp.client.sending import Outcome, Sender, event_body, wait_s

MAX_BUFFER_BYTES = 64 << 20


class EventClient:
    """Sends to ``base_url`` under ``key``. With ``buffer``, a directory, what waits survives the process.

    A batch leaves ``interval_s`` seconds after its first event, or when ``flush`` is called. ``outcome`` tells what became of the
    events; those that were refused must change before they are sent again, and are not kept.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        session_id: str = "",
        buffer: Path | None = None,
        max_buffer_bytes: int = MAX_BUFFER_BYTES,
        interval_s: float = 1.0,
        timeout_s: float = 40.0,
    ) -> None:
        """Raises BufferInUse; ValueError for what is no base URL."""
        self._sender = Sender(base_url, key, session_id, timeout_s)
        self._queue: Queue = DiskQueue(buffer, max_buffer_bytes) if buffer is not None else MemoryQueue(max_buffer_bytes)
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._closed = False
        self._denied: Denied | None = None
        self.outcome = Outcome()
        self._thread = threading.Thread(target=self._run, name="atdp-events", daemon=True)
        self._thread.start()

    def record(self, kind: str, **fields: Any) -> None:
        """Queue an event that happened now; ``fields`` are those of an ATDP event (``o``, ``a``, ``y``, ``session_id``, …).

        Raises:
            BufferFull: as much waits as may.
        """
        body = event_body(kind, fields)
        with self._changed:
            self._queue.put(body)
            self._changed.notify_all()

    @property
    def num_waiting(self) -> int:
        """Events without a receipt."""
        with self._changed:
            return len(self._queue)

    def flush(self, timeout_s: float | None = None) -> Outcome:
        """Send until nothing waits, at most ``timeout_s`` seconds; gives the outcome so far.

        Raises:
            NotSent: the time is up; the events still wait. Denied: the key is refused.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        attempt = 0
        while self.num_waiting:
            try:
                self._send()
                attempt = 0
            except NotSent as error:
                attempt += 1
                pause = wait_s(attempt, error.after_s)
                if deadline is not None and time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
        return self.outcome

    def close(self, timeout_s: float = 10.0) -> None:
        """Send what waits for at most ``timeout_s`` seconds. What is left then stays in a buffer on disk; without one it is lost.

        Raises:
            NotSent: something is left. Denied: the key is refused.
        """
        try:
            self.flush(timeout_s)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._thread.join()
            self._sender.close()
            self._queue.close()

    def __enter__(self) -> "EventClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _send(self) -> None:
        """One batch. Only the sender drops from the queue, so what others put meanwhile stays behind it."""
        with self._sending:
            self.outcome.add(self._sender.send_oldest(_Locked(self._queue, self._changed)))

    def _run(self) -> None:
        attempt = 0
        while self._wait_for_events():
            try:
                self._send()
                attempt = 0
                continue
            except NotSent as error:
                attempt += 1
                pause = wait_s(attempt, error.after_s)
            except Denied:
                attempt += 1
                pause = wait_s(attempt + 2, None)  # a key is replaced by people
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause)

    def _wait_for_events(self) -> bool:
        """Until a batch is due; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._queue) > 0)
            self._changed.wait_for(lambda: self._closed, self._interval_s)
            return not self._closed


class _Locked:
    """The queue, each step of it under the lock that ``record`` takes; sending itself holds no lock that ``record`` waits for."""

    def __init__(self, queue: Queue, lock: threading.Condition) -> None:
        self._queue = queue
        self._lock = lock

    def put(self, event: bytes) -> None:
        with self._lock:
            self._queue.put(event)

    def peek(self, max_events: int, max_bytes: int) -> list[bytes]:
        with self._lock:
            return self._queue.peek(max_events, max_bytes)

    def drop(self, num_events: int) -> None:
        with self._lock:
            self._queue.drop(num_events)

    def __len__(self) -> int:
        with self._lock:
            return len(self._queue)

    def close(self) -> None:
        with self._lock:
            self._queue.close()
