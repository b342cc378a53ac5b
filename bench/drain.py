"""Measures the drain: journaled exchanges to committed events, with the real redactor, on real files with full sync.

``python -m bench.drain [--conversations N]`` prints one JSON line last and keeps it in ``bench/results/drain.json``. Each
conversation has three streamed turns about a support ticket with an e-mail address and a phone number in it. ``events_s`` is by
the wall clock, ``events_s_core`` by the process's CPU time; ``without_redaction`` is with a redactor that changes nothing.
"""

import argparse
import asyncio
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from atdp.arrays import FLOAT32, INT32, encode
from atdp.ids import new_event_id
from dataproxy.capture import Journal, RequestHalf, ResponseHalf
from dataproxy.drain.redaction import Redactors
from dataproxy.keyfiles import ensure
from dataproxy.redact import Exchange, RedactedExchange, RedactedText, TokenBytes
from dataproxy.services import TenantRedactors, build_services
from dataproxy.settings import Settings

RESULT = Path(__file__).parent / "results" / "drain.json"
_TEXT = "the order arrived late and one part is missing please send a new one or refund what I paid thank you for your help"
_WORDS = _TEXT.split(" ")
_SYSTEM = "You sort support tickets. Answer with one JSON object that names the queue: billing, shipping or other."
_SPACED = [f"{space}{word}".encode() for word in sorted({*_WORDS, *_SYSTEM.split(" ")}) for space in ("", " ")]
_TABLE = [bytes([i]) for i in range(256)] + _SPACED
_IDS = {entry: index for index, entry in enumerate(_TABLE)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument("--conversations", type=int, default=700)
    count: int = parser.parse_args().conversations
    wall, cpu, mean_bytes = _measure(count, TenantRedactors(bytes(32), 16, TokenBytes(_TABLE, "bench")))
    plain_wall, plain_cpu, _ = _measure(count, _Nothing())
    result = {
        "bench": "drain",
        "events": count * 3,
        "bytes_per_exchange": mean_bytes,
        "events_s": round(wall),
        "events_s_core": round(cpu),
        "without_redaction": {"events_s": round(plain_wall), "events_s_core": round(plain_cpu)},
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


class _Nothing:
    """A redactor that changes nothing."""

    def of(self, tenant: str) -> "_Nothing":
        return self

    def redact_exchange(self, exchange: Exchange) -> RedactedExchange:
        prompt = exchange.prompt_ids if exchange.prompt_ids is not None else np.zeros(0, np.int32)
        altered = [np.zeros(len(ids), np.uint8) for ids in exchange.output_ids]
        flags = np.zeros(len(prompt), np.uint8)
        outputs = exchange.output_ids
        return RedactedExchange(exchange.request, exchange.response, prompt, outputs, exchange.strings, [], flags, altered)

    def redact_text(self, text: str) -> RedactedText:
        return RedactedText(text, [])


def _measure(count: int, redactors: Redactors) -> tuple[float, float, int]:
    """(events a second by the wall, by CPU, bytes an exchange)."""
    with tempfile.TemporaryDirectory() as directory:
        files = ensure(Path(directory) / "config")
        settings = Settings(data_dir=Path(directory) / "data", config_dir=files.directory)
        services = build_services(settings, files, redactors)
        journal = Journal.open(settings.data_dir / "journal", files.journal_public(), "relaxed")
        asyncio.run(_fill(journal, range(count, count + 1)))
        services.drain.run_once()  # rules are compiled and statements cached by now
        size = asyncio.run(_fill(journal, range(count)))
        journal.close()
        wall, cpu, drained = time.perf_counter(), time.process_time(), 0
        while batch := services.drain.run_once():
            drained += batch
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        services.database.close()
        assert drained == count * 3
        return drained / wall, drained / cpu, size // drained


async def _fill(journal: Journal, seeds: range) -> int:
    size = 0
    for number in seeds:
        for asked, got in _conversation(random.Random(number)):
            journal.begin(asked)
            await journal.finish(got)
            size += len(asked.body) + len(got.body) + len(got.record)
    return size


def _conversation(rng: random.Random) -> Iterator[tuple[RequestHalf, ResponseHalf]]:
    text = " ".join(rng.choices(_WORDS, k=100))
    ticket = f"{text} write to ann{rng.randrange(10**6)}@example.org or call +1 415 555 {rng.randrange(10**4):04d}"
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": ticket}]
    for _ in range(3):
        answer = " ".join(rng.choices(_WORDS, k=40))
        yield _exchange(messages, answer)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": " ".join(rng.choices(_WORDS, k=20))}]


def _exchange(messages: list[dict[str, str]], answer: str) -> tuple[RequestHalf, ResponseHalf]:
    event_id, now = new_event_id(), time.time_ns() // 1000
    output = _encode(answer)
    record = {
        "v": 1,
        "rid": event_id,
        "prompt_ids": encode(_encode("\n".join(f"{m['role']}: {m['content']}" for m in messages)), INT32),
        "sampling": {"temperature": 1.0},
        "choices": [
            {
                "index": 0,
                "output_ids": encode(output, INT32),
                "logprobs": encode([-0.5] * len(output), FLOAT32),
                "versions": [["v000000", 0, len(output)]],
                "finish_reason": "stop",
            }
        ],
    }
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in re.findall(r"\S+\s*", answer)
    ]
    stream = b"".join(b"data: %s\n\n" % msgspec.json.encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"
    body = msgspec.json.encode({"model": "tiny", "messages": messages, "stream": True})
    names = {"tenant": "bench", "agent": "triage", "key_id": "k", "session_id": "inferred-0", "session_source": "inferred"}
    asked = RequestHalf(
        event_id, f"chatcmpl-{event_id}", **names, dialect="chat", path="/v1/chat/completions", model="tiny", body=body, headers={},
        started_us=now,
    )  # fmt: skip
    got = ResponseHalf(event_id, 200, stream, msgspec.json.encode(record), True, "complete", "w1", now + 1, now + 2)
    return asked, got


def _encode(text: str) -> list[int]:
    pieces = re.findall(r" ?[A-Za-z]+|.", text, re.DOTALL)
    return [index for piece in pieces for index in ([_IDS[piece.encode()]] if piece.encode() in _IDS else piece.encode())]


if __name__ == "__main__":
    main()
