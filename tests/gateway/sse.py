"""Reads a streamed answer piece by piece."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

CHAT = "/v1/chat/completions"
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "stream": True}


class Stream:
    """``text`` is what has come so far."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.text = b""
        self._pieces = response.aiter_raw()

    async def until(self, marker: bytes) -> bytes:
        """Read until ``marker`` is in what has come."""
        async with asyncio.timeout(10):
            while marker not in self.text:
                self.text += await anext(self._pieces)
        return self.text

    async def count_rest(self) -> int:
        """Read to the clean end without keeping it; the number of bytes in all."""
        return len(self.text) + sum([len(piece) async for piece in self._pieces])

    async def rest(self) -> bytes:
        """Read to the clean end."""
        async with asyncio.timeout(10):
            async for piece in self._pieces:
                self.text += piece
        return self.text


async def eventually(condition: Callable[[], object]) -> None:
    """Turn the loop until ``condition()`` holds: for what happens in another task and tells nobody."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def open_stream(client: httpx.AsyncClient, body: dict[str, Any] | None = None) -> AsyncIterator[Stream]:
    """A streamed chat call."""
    async with client.stream("POST", CHAT, json=body or BODY) as response:
        yield Stream(response)
