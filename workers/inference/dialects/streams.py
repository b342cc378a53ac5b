"""A look at the beginning of a stream before the answer's status goes out.

SGLang begins a stream of responses or messages before the engine has said whether it takes the request; what it refuses (a prompt
that is too long) would be a 200 with an error inside. Its chat handler waits for the first chunk, and so do these.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing


async def after_first(events: AsyncGenerator[str, None], is_telling: Callable[[str], bool]) -> AsyncGenerator[str, None]:
    """`events` from their beginning, once one of them came that tells something (or they ended)."""
    seen: list[str] = []
    async for event in events:
        seen.append(event)
        if is_telling(event):
            break
    return _again(seen, events)


async def _again(seen: list[str], events: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(events) as rest:
        for event in seen:
            yield event
        async for event in rest:
            yield event
