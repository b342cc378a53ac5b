"""Takes an engine's answer apart as the gateway does: by bytes, and by nothing but what the contract promises."""

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from atdp import arrays

RECORD_EVENT = re.compile(rb"event: headrace\.record\ndata: (\{[^\n]*\})\n\n")
RECORD_FIELD = b',"headrace_record":'


@dataclass(frozen=True)
class Choice:
    """One choice of a record, decoded."""

    output_ids: list[int]
    logprobs: list[float]
    versions: list[tuple[str, int, int]]
    finish_reason: str | None


@dataclass(frozen=True)
class Answer:
    """`body` is what the agent gets, `record` the JSON that was taken out of it; `events` and `text` are parsed from `body`."""

    status: int
    body: bytes
    record: dict[str, Any] | None
    record_at: int
    is_stream: bool

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The JSON documents of the body: one, or the chunks of a stream."""
        if not self.is_stream:
            return [json.loads(self.body)]
        lines = [line.removeprefix(b"data: ") for line in self.body.split(b"\n\n") if line]
        assert lines[-1] == b"[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def text(self, index: int = 0) -> str:
        """What choice `index` says."""
        parts = [choice for document in self.documents for choice in document["choices"] if choice["index"] == index]
        return "".join((part.get("delta") or part.get("message") or {}).get("content") or "" for part in parts)

    def finish_reason(self, index: int = 0) -> str | None:
        parts = [choice for document in self.documents for choice in document["choices"] if choice["index"] == index]
        return next((part["finish_reason"] for part in parts if part["finish_reason"]), None)

    @property
    def prompt_ids(self) -> list[int]:
        assert self.record is not None
        return [int(one) for one in arrays.decode(self.record["prompt_ids"], arrays.INT32)]

    def choice(self, index: int = 0) -> Choice:
        assert self.record is not None
        found = next(choice for choice in self.record["choices"] if choice["index"] == index)
        logprobs = arrays.decode(found["logprobs"], arrays.FLOAT32)
        assert logprobs.dtype == np.float32
        return Choice(
            [int(one) for one in arrays.decode(found["output_ids"], arrays.INT32)],
            [float(one) for one in logprobs],
            [tuple(span) for span in found["versions"]],  # type: ignore[misc]
            found["finish_reason"],
        )


def parse(response: httpx.Response) -> Answer:
    """Cut the record out of an answer as the gateway does."""
    raw = response.content
    is_stream = response.headers["content-type"].startswith("text/event-stream")
    if is_stream:
        found = RECORD_EVENT.search(raw)
        if found is None:
            return Answer(response.status_code, raw, None, -1, True)
        assert len(RECORD_EVENT.findall(raw)) == 1
        assert raw[: found.start()] == b"" or raw[: found.start()].endswith(b"\n\n")
        body = raw[: found.start()] + raw[found.end() :]
        return Answer(response.status_code, body, json.loads(found[1]), found.start(), True)
    assert int(response.headers["content-length"]) == len(raw)
    at = raw.rfind(RECORD_FIELD)
    if at < 0:
        return Answer(response.status_code, raw, None, -1, False)
    return Answer(response.status_code, raw[:at] + b"}", json.loads(raw[at + len(RECORD_FIELD) : -1]), at, False)


def normalised(answer: Answer) -> bytes:
    """The body with what differs between any two calls made equal: ids, times, and where SGLang happened to cut the text."""
    merged: list[dict[str, Any]] = []
    for document in answer.documents:
        document |= {"id": "", "created": 0}
        if merged and _is_text(document) and _is_text(merged[-1]) and _index(document) == _index(merged[-1]):
            merged[-1]["choices"][0]["delta"]["content"] += document["choices"][0]["delta"]["content"]
        else:
            merged.append(document)
    return b"\n".join(json.dumps(document, ensure_ascii=False).encode() for document in merged)


def _index(document: dict[str, Any]) -> int:
    return int(document["choices"][0]["index"])


def _is_text(document: dict[str, Any]) -> bool:
    """A chunk that carries nothing but a piece of text."""
    choices = document["choices"]
    if len(choices) != 1 or choices[0].get("finish_reason") or choices[0].get("logprobs") or "usage" in document:
        return False
    delta = choices[0].get("delta") or {}
    return bool(delta.get("content")) and not delta.get("role") and not delta.get("tool_calls")
