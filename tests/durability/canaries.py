"""Values that belong to nobody, and the calls that carry them to the gateway: every kind, every dialect, every place in a body."""

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from bench.redact_cases import DISGUISES, cases
from bench.redact_values import KINDS

VALUES_PER_CALL = 4
_CHANCE_DIGITS = 12
"""A shorter number without its separators may stand in a time or an id by chance: it is not looked for in that form."""


@dataclass(slots=True, frozen=True)
class Canary:
    """A value and the words before it; some kinds are nothing but letters without them."""

    kind: str
    before: str
    value: str


def canaries(count: int, seed: int) -> list[Canary]:
    """``count`` values, all different, the kinds in turn."""
    each = -(-count // len(KINDS)) + 20
    by_kind = [[case for case in cases(kind, each * len(DISGUISES), seed) if case.disguise == "plain"] for kind in KINDS]
    found: dict[str, Canary] = {}
    for case in (case for row in itertools.zip_longest(*by_kind) for case in row if case is not None):
        if len(case.shown) > 8 and len(found) < count:
            found.setdefault(case.shown, Canary(case.kind, case.before, case.shown))
    assert len(found) == count
    return list(found.values())


def may_be_chance(value: str, form: str) -> bool:
    """Whether a find in this form says nothing."""
    return form == "no separators" and sum(c.isdigit() for c in value) < _CHANCE_DIGITS


def calls(values: list[Canary], seed: int, model: str, max_tokens: int) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """(path, body, headers) of calls that carry all of ``values``, some at a time."""
    rng = random.Random(seed)
    for number, start in enumerate(range(0, len(values), VALUES_PER_CALL)):
        said = [_said(rng, one) for one in values[start : start + VALUES_PER_CALL]]
        yield _call(number, said, rng.random() < 0.5, model, max_tokens)


def _said(rng: random.Random, canary: Canary) -> str:
    return f"{canary.before}{canary.value} {rng.choice(('thanks.', 'and so on', ''))}\n"


def _call(number: int, said: list[str], stream: bool, model: str, max_tokens: int) -> tuple[str, dict[str, Any], dict[str, str]]:
    """A fake engine says the last user message again, so its values come back in the answer and in the tokens."""
    text, rest = said[0] + "".join(said[2:]), said[1] if len(said) > 1 else "nothing"
    common: dict[str, Any] = {"model": model, "stream": stream, "max_tokens": max_tokens}
    headers = {"x-headrace-session": f"canary-{number}"}
    if number % 5 == 1:
        return "/v1/messages", {**common, "system": rest, "messages": [{"role": "user", "content": text}]}, headers
    if number % 5 == 2:
        body = {"model": model, "stream": stream, "max_output_tokens": max_tokens, "store": False}
        return "/v1/responses", {**body, "instructions": rest, "input": text}, headers
    if number % 5 == 3:
        return "/v1/completions", {**common, "prompt": text + rest}, headers
    if number % 5 == 4:
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "send", "arguments": json.dumps({"to": rest})}}
        before = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": rest},
        ]
        return "/v1/chat/completions", {**common, "messages": [*before, {"role": "user", "content": text}]}, headers
    messages = [{"role": "system", "content": rest}, {"role": "user", "content": [{"type": "text", "text": text}]}]
    return "/v1/chat/completions", {**common, "messages": messages, "user": rest, "metadata": {"note": rest}}, headers


async def send_all(
    base_url: str,
    key: str,
    values: list[Canary],
    kill: Callable[[], None],
    kills: int,
    *,
    concurrency: int = 12,
    model: str = "tiny",
    max_tokens: int = 4096,
) -> int:
    """Make every call until it is answered in full, and ``kill`` so often meanwhile; gives how often a call broke off."""
    made = list(calls(values, len(values), model, max_tokens))
    kill_after = {(n + 1) * len(made) // (kills + 1) for n in range(kills)}
    pending, answered, broken = iter(made), 0, 0

    async def lane(client: httpx.AsyncClient) -> None:
        nonlocal answered, broken
        for path, body, headers in pending:
            while not await _answered(client, path, body, headers):
                broken += 1
                await asyncio.sleep(0.02)
            answered += 1
            if answered in kill_after:
                await asyncio.to_thread(kill)

    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=300) as client, asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(lane(client))
    return broken


async def _answered(client: httpx.AsyncClient, path: str, body: dict[str, Any], headers: dict[str, str]) -> bool:
    try:
        answer = await client.post(path, json=body, headers=headers)
    except httpx.TransportError:
        return False
    assert answer.status_code in (200, 502, 503), f"{path}: {answer.status_code} {answer.text[:200]}"
    return answer.status_code == 200 and "journal_failed" not in answer.text
