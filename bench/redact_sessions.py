"""Sessions of an agent for `bench.redact`: every turn resends its history, exact tokens included, with values of people in it."""

import json
import random
from collections.abc import Iterator

import numpy as np

from dataproxy.redact import Exchange, TokenBytes
from dataproxy.redact.exchange import Ids, Json

_PROSE = "the order arrived late and one part is missing please send a new one or refund what I paid thank you for your help"
_WORDS = _PROSE.split(" ")
_SYSTEM = "You sort support tickets. Answer with one JSON object that names the queue: billing, shipping or other."
_SPACED = [f"{space}{word}".encode() for word in sorted({*_WORDS, *_SYSTEM.split(" ")}) for space in ("", " ")]
TABLE = [bytes([i]) for i in range(256)] + _SPACED
_IDS = {entry: index for index, entry in enumerate(TABLE)}
_LONGEST = max(map(len, TABLE))


def tokens() -> TokenBytes:
    """A table of every byte and the words of the sessions."""
    return TokenBytes(TABLE, "bench")


def session(rng: random.Random, num_turns: int) -> Iterator[Exchange]:
    """The exchanges of one session. Every other turn of the user names an address and a telephone number."""
    messages: list[Json] = [{"role": "system", "content": _SYSTEM}]
    prompt = _ids(f"<|im_start|>system\n{_SYSTEM}<|im_end|>\n")
    person = f"{rng.choice(('ana', 'tom', 'eva', 'omar'))}.{rng.randrange(10**6)}@example.com"
    phone = f"+1 415 555 {rng.randrange(10**4):04d}"
    for turn in range(num_turns):
        words = " ".join(rng.choices(_WORDS, k=40))
        asked = f"ticket {turn}: {words}. Write to {person} or call {phone}." if turn % 2 == 0 else f"and {words}?"
        messages.append({"role": "user", "content": asked})
        prompt = np.concatenate((prompt, _ids(f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n")))
        arguments = json.dumps({"queue": "billing", "note": " ".join(rng.choices(_WORDS, k=8))})
        call: Json = {"id": f"call_{turn}", "type": "function", "function": {"name": "sort", "arguments": arguments}}
        answer: dict[str, Json] = {"role": "assistant", "content": None, "tool_calls": [call]}
        output = _ids(f"{arguments}<|im_end|>")
        yield Exchange(
            request={"model": "agent", "messages": list(messages), "temperature": 0.7, "user": person},
            response={
                "id": f"chatcmpl-{rng.getrandbits(96):024x}", "object": "chat.completion", "created": 1_764_000_000 + turn,
                "choices": [{"index": 0, "finish_reason": "tool_calls", "message": answer}],
                "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(output)},
            },
            prompt_ids=prompt,
            output_ids=[output],
            strings={"session_id": "", "path": "/v1/chat/completions", "model": "agent", "error": "", "header.user-agent": "a/1"},
        )  # fmt: skip
        messages += [answer, {"role": "tool", "tool_call_id": f"call_{turn}", "content": '{"ok": true}'}]
        prompt = np.concatenate((prompt, output, _ids('\n<|im_start|>tool\n{"ok": true}<|im_end|>\n')))


def _ids(text: str) -> Ids:
    """The longest entries of the table, from the left."""
    data, at, found = text.encode(), 0, []
    while at < len(data):
        size = next(size for size in range(_LONGEST, 0, -1) if data[at : at + size] in _IDS)
        found.append(_IDS[data[at : at + size]])
        at += size
    return np.array(found, np.int32)
