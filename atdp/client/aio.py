"""The async client: the blocking one, its waits in threads: the event loop never blocks, and there is one code path to the wire."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

from atdp.client.sending import Outcome
from atdp.client.sync import MAX_BUFFER_BYTES, EventClient


class AsyncEventClient:
    """As ``EventClient``; made, used and closed inside an event loop."""

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
        options = {"session_id": session_id, "buffer": buffer, "max_buffer_bytes": max_buffer_bytes}
        self._client = EventClient(base_url, key, **options, interval_s=interval_s, timeout_s=timeout_s)  # type: ignore[arg-type]

    async def record(self, kind: str, **fields: Any) -> None:
        """Queue an event. Raises BufferFull."""
        await asyncio.to_thread(self._client.record, kind, **fields)

    @property
    def num_waiting(self) -> int:
        """Events without a receipt."""
        return self._client.num_waiting

    @property
    def outcome(self) -> Outcome:
        """What became of the events so far."""
        return self._client.outcome

    async def flush(self, timeout_s: float | None = None) -> Outcome:
        """Send until nothing waits. Raises NotSent, Denied."""
        return await asyncio.to_thread(self._client.flush, timeout_s)

    async def aclose(self, timeout_s: float = 10.0) -> None:
        """Send what waits, and end. Raises NotSent, Denied."""
        await asyncio.to_thread(self._client.close, timeout_s)

    async def __aenter__(self) -> "AsyncEventClient":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()
