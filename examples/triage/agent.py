"""An agent that files support tickets under their order. It is an ordinary OpenAI client: a base URL and a key are all it knows.

For every ticket it asks the model, streaming, for one JSON object. When the answer isn't one, it asks once more in the
same conversation, for a share of the tickets. Each ticket it has answered becomes one JSON line in the outbox, which is how the
rest of the company learns of it. Not owned: whether an answer is right (the customer desk, `user`, finds that out
later).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from openai import AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletionMessageParam

from examples.triage.reward import KEY, order_in
from examples.triage.tickets import EXAMPLE_ORDER, Ticket, tickets

SYSTEM: Final = f'Answer with JSON only: {{"{KEY}": {EXAMPLE_ORDER}}}'
QUESTION: Final = "{text}\nAnswer with JSON only."
REPAIR: Final = "That is not valid. Answer with JSON only."

EPILOG: Final = """
examples:
  # answer all held-out tickets once, four at a time
  python -m examples.triage.agent --base-url http://127.0.0.1:8080/v1 --api-key $KEY --split held_out --outbox answers.jsonl

  # be a live agent: training tickets in random order, until Ctrl-C
  python -m examples.triage.agent --base-url http://127.0.0.1:8080/v1 --api-key $KEY --num 0 --outbox answers.jsonl

A line of the outbox: {"ticket": "train-007", "answered_at": 1763000000.0, "answer": "{\\"order\\": 4821}",
"turns": [{"completion": "chatcmpl-...", "answer": "..."}]}. `answer` is the last turn's.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model and the id of the completion it came in."""

    completion: str
    answer: str


class TriageAgent:
    """Answers tickets with one model. `repair_share` is the share of tickets whose bad answer is sent back once."""

    def __init__(self, client: AsyncOpenAI, model: str, max_tokens: int, repair_share: float) -> None:
        self._client = client
        self._model = model
        self._max_tokens = max_tokens
        self._repair_share = repair_share

    async def answer(self, ticket: Ticket, rng: random.Random) -> list[Turn]:
        """Return one turn, or two when the first answer had to be repaired.

        Raises: OpenAIError when the server can't be reached, refuses, or breaks off.
        """
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION.format(text=ticket.text)},
        ]
        turns = [await self._ask(messages)]
        if order_in(turns[0].answer) is None and rng.random() < self._repair_share:
            messages += [{"role": "assistant", "content": turns[0].answer}, {"role": "user", "content": REPAIR}]
            turns.append(await self._ask(messages))
        return turns

    async def _ask(self, messages: list[ChatCompletionMessageParam]) -> Turn:
        stream = await self._client.chat.completions.create(
            model=self._model, messages=messages, stream=True, temperature=1.0, top_p=1.0, max_tokens=self._max_tokens
        )
        completion, pieces = "", []
        async for chunk in stream:
            completion = chunk.id
            pieces += [choice.delta.content or "" for choice in chunk.choices]
        return Turn(completion=completion, answer="".join(pieces))


@dataclass(slots=True)
class Outbox:
    """Appends one line per answered ticket, whole lines only, so that a reader may follow the file."""

    file: TextIO

    def put(self, ticket: Ticket, turns: list[Turn]) -> None:
        line = {
            "ticket": ticket.id,
            "answered_at": time.time(),
            "answer": turns[-1].answer,
            "turns": [{"completion": turn.completion, "answer": turn.answer} for turn in turns],
        }
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def endless(pool: list[Ticket], seed: int) -> Iterator[Ticket]:
    """All tickets in a random order, then all again in another."""
    rng = random.Random(seed)
    while True:
        yield from rng.sample(pool, len(pool))


async def work(agent: TriageAgent, queue: Iterator[Ticket], outbox: Outbox, rng: random.Random, stop: asyncio.Event) -> int:
    """One of the agent's hands: take the next ticket, answer it, write it down. Returns how many failed."""
    num_failed = 0
    while not stop.is_set() and (ticket := next(queue, None)) is not None:
        try:
            outbox.put(ticket, await agent.answer(ticket, rng))
        except OpenAIError as error:
            num_failed += 1
            print(f"ticket {ticket.id}: {type(error).__name__}: {error}", file=sys.stderr)
            await asyncio.sleep(1.0)  # the SDK has already retried; don't hammer a server that is down
    return num_failed


async def run(options: argparse.Namespace) -> int:
    """Answer tickets with `options.concurrency` hands until they are all answered or a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pool = tickets(options.split)
    queue = iter(pool[: options.num]) if options.num > 0 else endless(pool, options.seed)
    rng = random.Random(options.seed)
    async with AsyncOpenAI(base_url=options.base_url, api_key=options.api_key, timeout=options.timeout_s) as client:
        agent = TriageAgent(client, options.model, options.max_tokens, options.repair_share)
        with options.outbox.open("a") as file:
            hands = [work(agent, queue, Outbox(file), rng, stop) for _ in range(options.concurrency)]
            return sum(await asyncio.gather(*hands))


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL"), help="where the model is, ending in /v1 (OPENAI_BASE_URL)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="the agent's key (OPENAI_API_KEY)")
    add("--model", default="SmolLM2-135M-Instruct", help="model name (%(default)s)")
    add("--outbox", type=Path, required=True, help="file to append answered tickets to")
    add("--split", choices=("train", "held_out"), default="train", help="which tickets (%(default)s)")
    add("--num", type=int, default=0, help="how many tickets, in fixed order; 0: random ones until stopped (%(default)s)")
    add("--concurrency", type=int, default=8, help="tickets in work at a time (%(default)s)")
    add("--max-tokens", type=int, default=16, help="longest answer, in tokens (%(default)s)")
    add("--repair-share", type=float, default=0.25, help="share of bad answers that are sent back once (%(default)s)")
    add("--timeout-s", type=float, default=60.0, help="longest wait for one answer, in seconds (%(default)s)")
    add("--seed", type=int, default=0, help="order of random tickets, choice of repairs (%(default)s)")
    options = parser.parse_args(arguments)
    if not options.base_url or not options.api_key:
        parser.error("give --base-url and --api-key, or set OPENAI_BASE_URL and OPENAI_API_KEY")
    return options


def main() -> None:
    num_failed = asyncio.run(run(parse_arguments()))
    sys.exit(1 if num_failed else 0)


if __name__ == "__main__":
    main()
