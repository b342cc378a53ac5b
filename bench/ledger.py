"""What the ledger adds to storing an event: ``python -m bench.ledger``. CPU time of the writing thread, on SQLite with full sync.

Events are turns of conversations: a history that is resent, two new messages of 1 KB, 600 prompt and 120 output ids. Ends with
one JSON line, kept in ``bench/results/ledger.json``: quartiles of µs an event, of the ledger alone and of all of ``insert_events``,
and µs a leaf to audit.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from atdp.events import Event, TokenRecord
from dataproxy.admit import Decision
from dataproxy.assemble.calls import Placement
from dataproxy.digests import KeyedDigests
from dataproxy.ledger import log
from dataproxy.ledger.notes import NoteSigner
from dataproxy.ledger.verify import verify
from dataproxy.store import events
from dataproxy.store.database import Database
from dataproxy.store.events import Content, StoredEvent, Tokens, insert_events, next_position

RESULT = Path(__file__).parent / "results" / "ledger.json"
_BATCH = 128
_TURNS = 8
_PROMPT, _OUTPUT = 600, 120


class Timed:
    """Sums the CPU time that some functions of a module take, by standing in for them."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def stand_in(self, module: Any, name: str) -> None:
        """Time ``module.name`` from now on."""
        setattr(module, name, self._timed(getattr(module, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            begun = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.thread_time() - begun

        return timed


def main() -> None:
    """Store batches, time them, audit what was stored."""
    parser = argparse.ArgumentParser(description="What the ledger adds to storing an event.")
    parser.add_argument("--batches", type=int, default=40)
    batches = parser.parse_args().batches
    timed = Timed()
    for name in ("lock_logs", "event_content", "append"):
        timed.stand_in(events, name)
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "headrace.db")
        ledger, whole = [], []
        for batch in range(batches):
            items = [_item(batch * _BATCH + i) for i in range(_BATCH)]
            with database.write() as connection:
                before, begun = timed.seconds, time.thread_time()
                insert_events(connection, items, next_position(connection))
                whole.append((time.thread_time() - begun) / _BATCH * 1e6)
                ledger.append((timed.seconds - before) / _BATCH * 1e6)
        audit_us = _audit(database)
        database.close()
    result = {"ledger_us": _quartiles(ledger), "insert_us": _quartiles(whole), "audit_us_leaf": round(audit_us, 1)}
    found = {"bench": "ledger", "events": batches * _BATCH, "load": round(os.getloadavg()[0], 1), **result}
    RESULT.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


def _audit(database: Database) -> float:
    verifier = NoteSigner(bytes(32)).verifier
    with database.read() as connection:
        head = log.read_head(connection, "acme")
        begun = time.thread_time()
        for _ in verify(connection, "acme", verifier, []):
            pass
        assert head is not None
        return (time.thread_time() - begun) / head.frontier.size * 1e6


def _quartiles(values: list[float]) -> list[float]:
    return [round(value, 1) for value in statistics.quantiles(values, n=4)]


def _item(number: int) -> tuple[StoredEvent, Placement]:
    """Turn ``number % _TURNS`` of conversation ``number // _TURNS``."""
    conversation, turn = divmod(number, _TURNS)
    digests, random = KeyedDigests(bytes(32)), np.random.default_rng(number)
    messages = [_message(digests, conversation, i) for i in range(2 * turn + 2)]
    event_id = f"{number:032x}"
    prompt, output, versions = (random.integers(0, 49_000, size, dtype=np.int32).tobytes() for size in (_PROMPT, _OUTPUT, _OUTPUT))
    logprobs = random.standard_normal(_OUTPUT, dtype=np.float32).tobytes()
    record = TokenRecord(
        choice=0,
        prompt_ids=prompt,
        output_ids=output,
        logprobs=logprobs,
        versions=versions,
        prompt_altered=bytes(_PROMPT),
        output_altered=bytes(_OUTPUT),
        finish_reason="stop",
    )
    names = [message.digest.hex() for message in messages]
    event = Event(
        event_id=event_id,
        tenant="acme",
        agent="triage",
        kind="model_call",
        started_at=number,
        ended_at=number + 1,
        boundary="gateway",
        o={"messages": names[:-1]},
        a={"messages": names[-1:]},
        y={"status": 200, "delivery": "complete", "finish_reasons": ["stop"]},
        m={"model": "tiny", "dialect": "chat", "sampling": {"temperature": 1.0}, "usage": {"total_tokens": 720}},
    )
    tokens = [Tokens(record, 1.0, 0, bytes(16))]
    stored = StoredEvent(event=event, contents=messages, tokens=tokens, decisions={0: Decision(True, "eligible")}, policy="p")
    placement = Placement(f"s{conversation}", f"t{conversation}", turn, None, None, False, False)
    return stored, placement


def _message(digests: KeyedDigests, conversation: int, number: int) -> Content:
    words = " ".join(f"word{(conversation * 31 + number * 7 + i) % 997}" for i in range(140))
    data = json.dumps({"role": "user" if number % 2 == 0 else "assistant", "content": words}).encode()
    return Content(digests.of(b"content", data), data, [])


if __name__ == "__main__":
    main()
