"""A judge's model behind an OpenAI-compatible door, in this process: says what it is told to, fails when told to."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

Say = Callable[[dict[str, Any]], str]


@dataclass
class FakeJudge:
    """``say`` answers the parsed user message (asked, answer, after); ``hang``: never answers."""

    say: Say = lambda turn: '{"verdict": "good"}'
    status: int = 200
    hang: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    at_once: int = 0
    most_at_once: int = 0

    def client(self) -> httpx.AsyncClient:
        """A client that reaches it, whatever the address."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            body = json.loads(request.content)
            self.requests.append(body)
            self.keys.append(request.headers.get("authorization"))
            self.asked.set()
            await asyncio.Event().wait() if self.hang else await asyncio.sleep(0)
            if self.status != 200:
                return httpx.Response(self.status, json={"error": {"message": "busy"}})
            content = self.say(json.loads(body["messages"][1]["content"]))
            choices = [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            return httpx.Response(200, json={"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})
        finally:
            self.at_once -= 1
