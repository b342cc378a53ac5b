"""What the four dialects have in common, said in each one's own words: a question, a text, a tool call, an error."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

Body = dict[str, Any]
TOOL = {"name": "run", "description": "Run it", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}


@dataclass(frozen=True)
class Speech:
    """One dialect. ``opening`` puts a text into a request; ``end`` is how its streams end; ``tools`` offers ``TOOL``."""

    name: str
    path: str
    opening: Callable[[str], Body]
    end: bytes
    tools: Body
    is_anthropic: bool = False

    def ask(self, text: str = "hello", **more: Any) -> Body:
        """A request that says ``text``."""
        return {"model": "tiny", **self.opening(text), **more}

    def check_error(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """``body`` is an error of ours in this dialect's form."""
        error = json.loads(body)
        assert headers["content-type"].startswith("application/json") and headers["x-headrace-error"]
        if self.is_anthropic:
            assert set(error) == {"type", "error", "request_id"} and error["type"] == "error"
            assert set(error["error"]) == {"type", "message"} and error["error"]["type"].endswith("_error" if status != 413 else "")
        else:
            assert set(error) == {"error"} and set(error["error"]) == {"message", "type", "param", "code"}
        assert len(error["error"]["message"]) > 20

    def check_stream_error(self, event: bytes) -> None:
        """``event`` is the last event of a stream that broke, in this dialect's form."""
        name, _, data = event.decode().strip().rpartition("data: ")
        error = json.loads(data)
        assert error["error"]["message"]
        assert name == ("" if self.name in ("chat", "completions") else "event: error\n")
        assert (error.get("type") == "error") == (self.name in ("responses", "messages"))


def _user(text: str) -> list[Body]:
    return [{"role": "user", "content": text}]


_FUNCTION = {"type": "function", **TOOL}
_NESTED = {"type": "function", "function": TOOL}
_ANTHROPIC_TOOL = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
_DONE = b"data: [DONE]\n\n"
_COMPLETED = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'
_STOPPED = b'event: message_delta\ndata: {"type":"message_delta"}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'

CHAT = Speech("chat", "/v1/chat/completions", lambda text: {"messages": _user(text)}, _DONE, {"tools": [_NESTED]})
COMPLETIONS = Speech("completions", "/v1/completions", lambda text: {"prompt": text, "max_tokens": 4000}, _DONE, {})
RESPONSES = Speech("responses", "/v1/responses", lambda text: {"input": text}, _COMPLETED, {"tools": [_FUNCTION]})
MESSAGES = Speech(
    "messages",
    "/v1/messages",
    lambda text: {"messages": _user(text), "max_tokens": 4000},
    _STOPPED,
    {"tools": [_ANTHROPIC_TOOL]},
    is_anthropic=True,
)
ALL = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]

each = pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)
each_with_tools = pytest.mark.parametrize("speech", [CHAT, RESPONSES, MESSAGES], ids=lambda speech: speech.name)
