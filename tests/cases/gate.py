"""A token gate for the scripted engine's model: lets some tokens out and holds the rest until it is opened."""

import asyncio


class Gate:
    """``after`` tokens leave; ``reached`` is set when the next one waits for ``open``."""

    def __init__(self, after: int = 1) -> None:
        self.open, self.reached = asyncio.Event(), asyncio.Event()
        self._left = after - 1  # the first token passes no gate

    async def __call__(self) -> None:
        if self._left > 0:
            self._left -= 1
            return
        self.reached.set()
        await self.open.wait()
