"""The customer desk: a process of its own that learns seconds later whether a ticket was filed under the right order, and says so.

It follows the agent's outbox, waits as long as a customer would, judges the last answer of each ticket (`reward`), and posts
the reward for that answer's completion id. It has a key of its own and never talks to the agent. With `--shuffle` it deals the
same rewards to the wrong tickets: the control arm of an experiment, in which nothing may be learned.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final, TextIO

import httpx

from examples.triage.reward import Verdict, judge
from examples.triage.tickets import Ticket, tickets

REPAIRED: Final = 0.5
"""What a reward is worth when the agent needed a second turn."""

_POLL_S: Final = 0.2
_RETRY_STATUS: Final = (429, 502, 503, 504)

EPILOG: Final = """
examples:
  # judge what the agent writes, three to six seconds after each answer, until Ctrl-C
  python -m examples.triage.user --base-url http://127.0.0.1:8080/v1 --api-key $KEY --outbox answers.jsonl

  # the control arm: the same rewards, dealt at random within every 32 tickets
  python -m examples.triage.user ... --shuffle --window 32 --seed 1

What is posted: POST {base-url}/feedback {"target": COMPLETION_ID, "name": "resolved", "value": 1.0, "source": "user",
"idempotency_key": "COMPLETION_ID:resolved"}. On SIGTERM or Ctrl-C everything outstanding is judged and posted at once.
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One answered ticket with what it earned; `due` is the Unix time at which the customer speaks up."""

    ticket: str
    completion: str
    verdict: Verdict
    due: float


class Desk:
    """Turns lines of the outbox into rewards, in order, and deals them at random within a window if told to."""

    def __init__(self, known: dict[str, Ticket], delay_s: tuple[float, float], rng: random.Random, window: int) -> None:
        self._known = known
        self._delay_s = delay_s
        self._rng = rng
        self._window = window
        self._held: list[Judged] = []

    def read(self, line: str) -> list[Judged]:
        """Judge one line of the outbox. Returns what may be posted from now on (in the control arm, whole windows)."""
        answered = json.loads(line)
        verdict = judge(answered["answer"], self._known[answered["ticket"]])
        if len(answered["turns"]) > 1:
            verdict = replace(verdict, reward=REPAIRED * verdict.reward)
        due = answered["answered_at"] + self._rng.uniform(*self._delay_s)
        self._held.append(Judged(answered["ticket"], answered["turns"][-1]["completion"], verdict, due))
        return self.release() if len(self._held) >= self._window else []

    def release(self) -> list[Judged]:
        """Give out what is held; with a window above one, its verdicts change places first."""
        held, self._held = self._held, []
        verdicts = [judged.verdict for judged in held]
        if self._window > 1:
            self._rng.shuffle(verdicts)
        return [replace(judged, verdict=verdict) for judged, verdict in zip(held, verdicts, strict=True)]


class Poster:
    """Posts rewards one by one; tries again while the server is busy or away, and never posts one twice."""

    def __init__(self, client: httpx.Client, patience_s: float) -> None:
        self._client = client
        self._patience_s = patience_s

    def post(self, judged: Judged) -> int:
        """Post one reward and return the last status, 0 if the server could not be reached in time.

        200 is stored, 202 is kept until the completion itself is stored: both are done.
        """
        body = {
            "target": judged.completion,
            "name": "resolved",
            "value": judged.verdict.reward,
            "source": "user",
            "idempotency_key": f"{judged.completion}:resolved",
        }
        give_up_at, pause_s = time.monotonic() + self._patience_s, 0.2
        while True:
            status = self._try(body)
            if (status and status not in _RETRY_STATUS) or time.monotonic() + pause_s > give_up_at:
                return status
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 5.0)

    def _try(self, body: dict[str, object]) -> int:
        try:
            return self._client.post("feedback", json=body).status_code
        except httpx.TransportError:
            return 0


def new_lines(file: TextIO) -> Iterator[str]:
    """Whole lines that were added since the last call; half a line waits for its end."""
    while True:
        position = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(position)
            return
        yield line


def follow(outbox: Path, desk: Desk, poster: Poster, log: TextIO | None, stop: Event) -> int:
    """Judge and post until `stop`, then what is left without waiting. Returns how many rewards were not taken."""
    num_refused, waiting = 0, list[Judged]()
    outbox.touch()
    with outbox.open() as file:
        while True:
            stopping = stop.is_set()  # read before the lines: what comes after it is for another run
            for line in new_lines(file):
                waiting += desk.read(line)
            if stopping:
                waiting += desk.release()
            now = time.time()
            for judged in [judged for judged in waiting if stopping or judged.due <= now]:
                waiting.remove(judged)
                num_refused += not _post_and_log(poster, judged, log)
            if stopping:
                return num_refused
            stop.wait(_POLL_S)


def _post_and_log(poster: Poster, judged: Judged, log: TextIO | None) -> bool:
    status = poster.post(judged)
    if status not in (200, 202):
        print(f"reward for {judged.completion}: status {status or 'unreachable'}", file=sys.stderr)
    if log is not None:
        entry = {"ticket": judged.ticket, "completion": judged.completion, "reward": judged.verdict.reward}
        log.write(json.dumps(entry | {"success": judged.verdict.success, "status": status, "at": time.time()}) + "\n")
        log.flush()
    return status in (200, 202)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL"), help="the gateway, ending in /v1 (OPENAI_BASE_URL)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="the desk's key (OPENAI_API_KEY)")
    add("--outbox", type=Path, required=True, help="the agent's file of answered tickets")
    add("--log", type=Path, help="file to append one JSON line per posted reward to")
    add("--delay-s", type=float, nargs=2, default=(2.0, 4.0), metavar=("MIN", "MAX"), help="a customer's pause (2 4)")
    add("--patience-s", type=float, default=60.0, help="how long to retry one reward, in seconds (%(default)s)")
    add("--shuffle", action="store_true", help="control arm: deal the rewards of a window at random")
    add("--window", type=int, default=32, help="tickets in a window of --shuffle (%(default)s)")
    add("--seed", type=int, default=0, help="of the delays and the shuffle (%(default)s)")
    options = parser.parse_args(arguments)
    if not options.base_url or not options.api_key:
        parser.error("give --base-url and --api-key, or set OPENAI_BASE_URL and OPENAI_API_KEY")
    return options


def main() -> None:
    options = parse_arguments()
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    known = {ticket.id: ticket for ticket in tickets("train") + tickets("held_out")}
    window = options.window if options.shuffle else 1
    desk = Desk(known, tuple(options.delay_s), random.Random(options.seed), window)
    headers = {"authorization": f"Bearer {options.api_key}"}
    with httpx.Client(base_url=options.base_url, headers=headers, timeout=10.0) as client:
        log = options.log.open("a") if options.log else None
        num_refused = follow(options.outbox, desk, Poster(client, options.patience_s), log, stop)
    sys.exit(1 if num_refused else 0)


if __name__ == "__main__":
    main()
