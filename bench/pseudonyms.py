"""What pseudonyms cost a call: substitution in the data proxy, fresh and as a conversation goes on, and putting back in a stream.

``python -m bench.pseudonyms`` prints one JSON line and keeps it in ``bench/results/pseudonyms.json``. Times are of one
thread, without the socket between the two processes.
"""

import json
import os
import random
import statistics
import time
from pathlib import Path

from dataproxy.digests import KeyedDigests
from dataproxy.pseudonym_types import Form
from dataproxy.pseudonyms.substitute import pseudonymized
from dataproxy.redact.detector import Detector
from gateway.pseudonyms.restore import Restorer
from gateway.pseudonyms.slots import CHAT
from gateway.pseudonyms.streams import StreamRestorer

RESULT = Path(__file__).parent / "results" / "pseudonyms.json"
_WORDS = ("please", "check", "the", "order", "and", "tell", "whether", "it", "was", "shipped", "because", "somebody", "waits")
_TURNS, _CONVERSATIONS = 12, 20


def _text(chance: random.Random, size: int) -> str:
    """About ``size`` characters, one value in three hundred."""
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(" ".join(chance.choice(_WORDS) for _ in range(50)))
        number = "".join(chance.choice("0123456789") for _ in range(7))
        parts.append(
            chance.choice((f"user{number}@corp.io", f"+1 212 {number[:3]} {number[3:]}", f"81.{number[:2]}.4.{number[2:4]}"))
        )
    return " ".join(parts)


def _timed_ms(detector: Detector, body: bytes, session: str) -> float:
    begun = time.perf_counter()
    pseudonymized(detector, KeyedDigests(bytes(32)), session, body, 30.0)
    return (time.perf_counter() - begun) * 1e3


def _conversations(detector: Detector, chance: random.Random) -> list[float]:
    """Milliseconds of each turn after the first: all but the last two messages were seen."""
    found = []
    for number in range(_CONVERSATIONS):
        messages: list[dict[str, str]] = []
        for turn in range(_TURNS):
            messages += [{"role": "user", "content": _text(chance, 600)}]
            spent = _timed_ms(detector, json.dumps({"model": "m", "messages": messages}).encode(), f"s{number}")
            found += [spent] if turn else []
            messages += [{"role": "assistant", "content": _text(chance, 600)}]
    return found


def _stream_us(chance: random.Random) -> float:
    """Microseconds an event of a chat stream, four characters a piece."""
    forms = [Form(f"mia.silva{n}@example.org", f"ann{n}@acme.io", False) for n in range(40)]
    text = _text(chance, 4000)
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    events = [{"id": "c", "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    stream = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    restorer = StreamRestorer(Restorer(forms), CHAT)
    begun = time.perf_counter()
    for event in stream:
        restorer.feed(event)
    return (time.perf_counter() - begun) / len(stream) * 1e6


def measured() -> dict[str, float]:
    """Milliseconds of turns and of fresh requests of 20 KB, microseconds of a stream's event, and how many turns there were."""
    chance, detector = random.Random(7), Detector(bytes(32))
    turns = _conversations(detector, chance)
    bodies = [
        json.dumps({"model": "m", "messages": [{"role": "user", "content": _text(chance, 20_000)}]}).encode() for _ in range(20)
    ]
    fresh = [_timed_ms(detector, body, "s") for body in bodies]
    stream = min(_stream_us(chance) for _ in range(5))
    result = {
        "turn_ms_p50": statistics.median(turns),
        "turn_ms_p99": statistics.quantiles(turns, n=100)[98],
        "fresh_20kb_ms_p50": statistics.median(fresh),
        "stream_event_us": stream,
        "n_turns": len(turns),
    }
    return {name: round(value, 2) for name, value in result.items()}


def main() -> None:
    """Measure, keep, print."""
    found = {"bench": "pseudonyms", "load": round(os.getloadavg()[0], 1), **measured()}
    RESULT.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
