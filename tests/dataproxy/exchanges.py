"""Exchanges as a gateway would journal them, for tests of everything behind the journal."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from atdp.arrays import FLOAT32, INT32, encode
from atdp.ids import mint_completion_id
from dataproxy.capture import Delivery, Journal, RequestHalf, ResponseHalf

MAC_SECRET = bytes(32)
SAMPLING: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "grammar": False}
_counter = itertools.count(1)


def event_id() -> str:
    """A fresh id that sorts after the ones before it."""
    return f"{next(_counter):032x}"


def record(
    rid: str,
    prompt: Sequence[int],
    outputs: Sequence[Sequence[int]],
    *,
    logprobs: Sequence[Sequence[float]] | None = None,
    version: str = "v000000",
    finish_reason: str | None = "stop",
    sampling: dict[str, Any] | None = None,
    **changes: Any,
) -> bytes:
    """The engine's record of ``outputs`` for ``prompt``, every logprob −0.5 unless given."""
    logprobs = logprobs if logprobs is not None else [[-0.5] * len(output) for output in outputs]
    choices = [
        {
            "index": i,
            "output_ids": encode(list(output), INT32),
            "logprobs": encode(np.array(logprobs[i], FLOAT32), FLOAT32),
            "versions": [[version, 0, len(output)]],
            "finish_reason": finish_reason,
        }
        for i, output in enumerate(outputs)
    ]
    body = {
        "v": 1,
        "rid": rid,
        "model": "tiny",
        "engine": {"name": "sglang", "version": "0.5.23"},
        "prompt_ids": encode(list(prompt), INT32),
        "sampling": SAMPLING if sampling is None else sampling,
        "choices": choices,
    }
    return msgspec.json.encode(body | changes)


def exchange(
    messages: Sequence[Any],
    answer: str = "ok",
    *,
    prompt: Sequence[int] | None = None,
    outputs: Sequence[Sequence[int]] = ((7, 8, 9),),
    tenant: str = "acme",
    agent: str = "triage",
    session: str | None = None,
    delivery: Delivery = "complete",
    started_us: int = 1_000_000,
    ended_us: int | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    engine_record: bytes | None = None,
    answers: Sequence[dict[str, Any]] | None = None,
    **request: Any,
) -> tuple[RequestHalf, ResponseHalf]:
    """One call; without ``session`` the gateway inferred one. ``prompt`` None: no engine record."""
    this = event_id()
    completion_id = mint_completion_id(MAC_SECRET, tenant, this)
    if engine_record is None:
        engine_record = record(completion_id, prompt, outputs) if prompt is not None else b""
    found = answers or [{"role": "assistant", "content": answer}]
    choices = [{"index": i, "message": message, "finish_reason": "stop"} for i, message in enumerate(found)]
    body = {"id": completion_id, "object": "chat.completion", "model": "tiny", "choices": choices, "usage": {"total_tokens": 9}}
    asked = RequestHalf(
        event_id=this,
        completion_id=completion_id,
        tenant=tenant,
        agent=agent,
        key_id="key-1",
        session_id=session or "inferred-00",
        session_source="header" if session else "inferred",
        dialect="chat",
        path="/v1/chat/completions",
        model="tiny",
        body=msgspec.json.encode({"model": "tiny", "messages": list(messages), **request}),
        headers=headers or {},
        started_us=started_us,
    )
    got = ResponseHalf(
        event_id=this,
        status=status,
        body=msgspec.json.encode(body),
        record=engine_record,
        stream=False,
        delivery=delivery,
        worker="w1",
        first_byte_us=started_us + 10,
        ended_us=ended_us if ended_us is not None else started_us + 20,
    )
    return asked, got


PATHS = {
    "chat": ("/v1/chat/completions", "chatcmpl-"),
    "completions": ("/v1/completions", "cmpl-"),
    "responses": ("/v1/responses", "resp_"),
    "messages": ("/v1/messages", "msg_"),
}


def call_in(
    dialect: str,
    request: dict[str, Any],
    answer: dict[str, Any] | bytes,
    *,
    prompt: Sequence[int] | None = None,
    outputs: Sequence[Sequence[int]] = ((7, 8, 9),),
    engine_record: bytes | None = None,
    session: str | None = None,
    started_us: int = 1_000_000,
    status: int = 200,
    **reported: Any,
) -> tuple[RequestHalf, ResponseHalf]:
    """One call in ``dialect``; an answer of bytes came as a stream. ``reported`` goes into the record."""
    asked, got = exchange([], session=session, started_us=started_us, status=status)
    path, prefix = PATHS[dialect]
    completion_id = mint_completion_id(MAC_SECRET, "acme", asked.event_id, prefix)
    if engine_record is None:
        engine_record = record(completion_id, prompt, outputs, **reported) if prompt is not None else b""
    body = answer if isinstance(answer, bytes) else msgspec.json.encode({"id": completion_id, **answer})
    asked = msgspec.structs.replace(
        asked, dialect=dialect, path=path, completion_id=completion_id, body=msgspec.json.encode({"model": "tiny", **request})
    )
    return asked, msgspec.structs.replace(got, body=body, stream=isinstance(answer, bytes), record=engine_record)


def sse(*events: dict[str, Any], named: bool = True) -> bytes:
    """A stream of ``events``, each named by its type where the dialect does that."""
    heads = [f"event: {event['type']}\n" if named else "" for event in events]
    return b"".join(head.encode() + b"data: " + msgspec.json.encode(e) + b"\n\n" for head, e in zip(heads, events, strict=True))


async def write(journal: Journal, *pairs: tuple[RequestHalf, ResponseHalf]) -> None:
    """Journal whole exchanges."""
    for asked, got in pairs:
        journal.begin(asked)
        await journal.finish(got)


def user(text: str) -> dict[str, str]:
    """A user's message."""
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, str]:
    """An assistant's message, as an agent echoes it."""
    return {"role": "assistant", "content": text}
