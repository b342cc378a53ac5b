"""Exchanges as a gateway journals them, for measuring the drain: short support talks, and an agent that works with tools.

Seeded, invented, with an e-mail address and a phone number in each conversation. Prompts are rendered in the ChatML form, as those
of SmolLM2 and Qwen are; ids are those of a made-up vocabulary of words.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from atdp.arrays import FLOAT32, INT32, encode
from atdp.ids import new_event_id
from dataproxy.capture import Journal, RequestHalf, ResponseHalf
from dataproxy.redact import TokenBytes

Exchange = tuple[RequestHalf, ResponseHalf]
_TEXT = "the order arrived late and one part is missing please send a new one or refund what I paid thank you for your help"
_WORDS = _TEXT.split(" ")
_SYSTEM = "You sort support tickets. Answer with one JSON object that names the queue: billing, shipping or other."
_START, _STOP = "<|im_start|>", "<|im_end|>"
_SPACED = [f"{space}{word}".encode() for word in sorted({*_WORDS, *_SYSTEM.split(" ")}) for space in ("", " ")]
_TABLE = [*(bytes([i]) for i in range(256)), *_SPACED, _START.encode(), _STOP.encode()]
_IDS = {entry: index for index, entry in enumerate(_TABLE)}
TOKENS = TokenBytes(_TABLE, "bench")
MASK_ID = 16


def talk(number: int) -> Iterator[Exchange]:
    """Three turns about a ticket: 6.5 KB an exchange, most of it said once before."""
    rng = random.Random(number)
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _ticket(rng)}]
    for _ in range(3):
        answer = _words(rng, 40)
        yield exchange(messages, answer)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": _words(rng, 20)}]


def work(number: int) -> Iterator[Exchange]:
    """Twelve turns of an agent that calls a tool in each: the history grows to 25 messages and is sent every time."""
    rng = random.Random(number)
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _ticket(rng)}]
    for turn in range(12):
        function = {"name": "look_up", "arguments": f'{{"id": "{turn}"}}'}
        call = {"id": f"call_{number}_{turn}", "type": "function", "function": function}
        answer = _words(rng, 30)
        yield exchange(messages, answer, call)
        messages += [{"role": "assistant", "content": answer, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": _words(rng, 120)}]


async def fill(journal: Journal, conversations: Callable[[int], Iterator[Exchange]], numbers: range) -> tuple[int, int]:
    """Journal the conversations; (exchanges, bytes)."""
    count = size = 0
    for number in numbers:
        for asked, got in conversations(number):
            journal.begin(asked)
            await journal.finish(got)
            count, size = count + 1, size + len(asked.body) + len(got.body) + len(got.record)
    return count, size


async def pour(journal: Journal, pairs: list[Exchange], rate_s: float) -> list[float]:
    """Seconds that each answer's end waited for its commit, answers coming at random moments, ``rate_s`` a second."""
    rng, waits, loop = random.Random(1), list[float](), asyncio.get_running_loop()

    async def end(got: ResponseHalf) -> None:
        start = time.perf_counter()
        await journal.finish(got)
        waits.append(time.perf_counter() - start)

    due = loop.time()
    async with asyncio.TaskGroup() as group:
        for asked, got in pairs:
            due += rng.expovariate(rate_s)
            await asyncio.sleep(max(due - loop.time(), 0))
            journal.begin(asked)
            group.create_task(end(got))
    return waits


def ids_of(text: str) -> list[int]:
    """Words where the vocabulary has them, else bytes."""
    pieces = re.findall(r"<\|im_(?:start|end)\|>| ?[A-Za-z]+|.", text, re.DOTALL)
    return [index for piece in pieces for index in ([_IDS[piece.encode()]] if piece.encode() in _IDS else piece.encode())]


def exchange(
    messages: list[dict[str, Any]],
    answer: str,
    call: dict[str, Any] | None = None,
    encode_text: Callable[[str], list[int]] = ids_of,
) -> Exchange:
    """One streamed call, answered by a text and maybe a tool call; ``encode_text`` gives a text's ids."""
    event_id, now = new_event_id(), time.time_ns() // 1000
    output = [*encode_text(answer), *encode_text(_STOP)]
    rendered = "".join(
        f"{_START}{m['role']}\n{m['content']}{''.join(c['function']['arguments'] for c in m.get('tool_calls', ()))}{_STOP}\n"
        for m in messages
    )
    rendered += f"{_START}assistant\n"
    choice = {
        "index": 0,
        "output_ids": encode(output, INT32),
        "logprobs": encode([-0.5] * len(output), FLOAT32),
        "versions": [["v000000", 0, len(output)]],
        "finish_reason": "stop",
    }
    record = {"v": 1, "rid": event_id, "prompt_ids": encode(encode_text(rendered), INT32), "sampling": {"temperature": 1.0}}
    head = {"id": f"chatcmpl-{event_id}", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in re.findall(r"\S+\s*", answer)]
    deltas += [{"tool_calls": [{"index": 0, **call}]}] if call is not None else []
    reasons = [*(None for _ in deltas), "tool_calls" if call is not None else "stop"]
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in zip([*deltas, {}], reasons, strict=True)
    ]
    stream = b"".join(b"data: %s\n\n" % msgspec.json.encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"
    body = msgspec.json.encode({"model": "tiny", "messages": messages, "stream": True})
    names = {"tenant": "bench", "agent": "triage", "key_id": "k", "session_id": "inferred-0", "session_source": "inferred"}
    asked = RequestHalf(
        event_id, head["id"], **names, dialect="chat", path="/v1/chat/completions", model="tiny", body=body, headers={},  # type: ignore[arg-type]
        started_us=now,
    )  # fmt: skip
    record_bytes = msgspec.json.encode({**record, "choices": [choice]})
    return asked, ResponseHalf(event_id, 200, stream, record_bytes, True, "complete", "w1", now + 1, now + 2)


def _ticket(rng: random.Random) -> str:
    who = f"write to ann{rng.randrange(10**6)}@example.org or call +1 415 555 {rng.randrange(10**4):04d}"
    return f"{_words(rng, 100)} {who}"


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_WORDS, k=count))
