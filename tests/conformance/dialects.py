"""The four dialects as the suite asks and reads them: one call of each, and what an answer says in its own words."""

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.conformance.answers import Answer

QUESTION = "Tell me all you know about rivers, weirs and mills. " * 3

_OBJECTS = ("chat.completion", "chat.completion.chunk", "text_completion", "response")
_VARIES = re.compile(r'"(?:id|item_id|call_id)":"[^"]*"|"created(?:_at)?":\d+')


@dataclass(frozen=True)
class Dialect:
    """``limit`` is the field that bounds the answer's tokens; ``endings`` are the events that the record stands before."""

    name: str
    path: str
    prefix: str
    body: dict[str, Any]
    limit: str
    endings: tuple[str, ...]

    def asks(self, num_tokens: int, **fields: Any) -> dict[str, Any]:
        """The body of a call for ``num_tokens`` tokens at temperature 0."""
        return {"temperature": 0, **self.body, self.limit: num_tokens, **fields}

    def rid(self) -> str:
        return self.prefix + uuid.uuid4().hex


USER = [{"role": "user", "content": QUESTION}]
CHAT = Dialect("chat", "/v1/chat/completions", "chatcmpl-", {"messages": USER}, "max_tokens", ('"finish_reason":"',))
COMPLETIONS = Dialect("completions", "/v1/completions", "cmpl-", {"prompt": QUESTION}, "max_tokens", ('"finish_reason":"',))
RESPONSES = Dialect(
    "responses",
    "/v1/responses",
    "resp_",
    {"input": QUESTION},
    "max_output_tokens",
    ("event: response.completed", "event: response.incomplete", "event: response.failed"),
)
MESSAGES = Dialect(
    "messages", "/v1/messages", "msg_", {"messages": USER}, "max_tokens", ("event: message_delta", "event: error")
)  # fmt: skip
DIALECTS = {dialect.name: dialect for dialect in (CHAT, COMPLETIONS, RESPONSES, MESSAGES)}


def events(answer: Answer) -> list[tuple[str, Any]]:
    """Name and document of each event of a stream, of one document where it is none; a chunk without a name is ``""``."""
    if not answer.is_stream:
        return [("", json.loads(answer.body))]
    found = []
    for block in answer.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if fields and fields["data"] != "[DONE]":
            found.append((fields.get("event", ""), json.loads(fields["data"])))
    return found


def text(answer: Answer) -> str:
    """All text of the answer's first choice."""
    return "".join(piece for name, document in events(answer) for piece in _pieces(name, document))


def reasoning(answer: Answer) -> str:
    """All reasoning of the answer."""
    return "".join(piece for name, document in events(answer) for piece in _thoughts(name, document))


def _thoughts(name: str, document: Any) -> Iterator[str]:
    if name in ("response.reasoning_text.delta", "content_block_delta"):
        delta = document["delta"]
        yield delta if isinstance(delta, str) else delta.get("thinking", "")
    elif name == "" and "output" in document:
        yield from (part["text"] for item in document["output"] if item["type"] == "reasoning" for part in item["content"])
    elif name == "" and "content" in document:
        yield from (block.get("thinking", "") for block in document["content"])
    elif name == "":
        for choice in document["choices"]:
            yield (choice.get("delta") or choice.get("message") or {}).get("reasoning_content") or ""


def calls(answer: Answer) -> list[tuple[str, str]]:
    """Name and arguments of every tool call, in order."""
    found: list[list[str]] = []
    for name, document in events(answer):
        block, delta = document.get("content_block") or {}, document.get("delta") or {}
        if name == "response.output_item.done" and document["item"]["type"] == "function_call":
            found.append([document["item"]["name"], document["item"]["arguments"]])
        elif block.get("type") == "tool_use":
            found.append([block["name"], ""])
        elif name == "content_block_delta" and "partial_json" in delta:
            found[-1][1] += delta["partial_json"]
        elif name == "":
            found += _named_calls(document, found)
    return [(name, arguments) for name, arguments in found]


def _named_calls(document: Any, found: list[list[str]]) -> list[list[str]]:
    """The calls of a whole answer, or of a chat chunk; pieces of an earlier call's arguments are put to it in `found`."""
    new = [[item["name"], item["arguments"]] for item in document.get("output", []) if item["type"] == "function_call"]
    new += [[block["name"], json.dumps(block["input"])] for block in document.get("content", []) if block["type"] == "tool_use"]
    for choice in document.get("choices", []):
        for call in (choice.get("delta") or choice.get("message") or {}).get("tool_calls") or []:
            function = call["function"]
            if function.get("name"):
                new.append([function["name"], function.get("arguments") or ""])
            else:
                (new or found)[-1][1] += function["arguments"]
    return new


def _pieces(name: str, document: Any) -> Iterator[str]:
    if name in ("response.output_text.delta", "content_block_delta"):
        delta = document["delta"]
        yield delta if isinstance(delta, str) else delta.get("text", "")
    elif name == "" and "output" in document:
        yield from (part["text"] for item in document["output"] if item["type"] == "message" for part in item["content"])
    elif name == "" and "content" in document:
        yield from (block.get("text", "") for block in document["content"])
    elif name == "":
        for choice in document["choices"]:
            if choice["index"] == 0:
                yield choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""


def stopped(answer: Answer) -> str | None:
    """Why it ended, in the dialect's word."""
    for name, document in reversed(events(answer)):
        if name.startswith("response.") or document.get("object") == "response":
            return str((document.get("response") or document)["status"])
        reasons = [document.get("delta", document).get("stop_reason")] if "type" in document else []
        reasons += [choice["finish_reason"] for choice in document.get("choices", [])]
        for reason in reasons:
            if reason is not None:
                return str(reason)
    return None


def ids(answer: Answer) -> set[str]:
    """Every id that the answer gives itself."""
    found = set()
    for _, document in events(answer):
        named = document.get("response") or document.get("message") or document
        if named.get("object") in _OBJECTS or named.get("type") == "message":
            found.add(named["id"])
    return found


def shape(answer: Answer) -> tuple[list[str], str, str]:
    """What two equal answers share: the order of their events, their text, and their last document but for ids and times."""
    names = [name for name, _ in events(answer)]
    order = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
    last = json.dumps(events(answer)[-1][1], separators=(",", ":"), ensure_ascii=False)
    return order, text(answer), re.sub(r'"(?:sequence_number|cached_tokens)":\d+', "", _VARIES.sub("", last))
