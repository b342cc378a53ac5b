"""Asks a judge's model for its votes, at the same time, each with a time-out of its own. No store here."""

import asyncio
import os
from dataclasses import dataclass

import httpx
import msgspec

from dataproxy.client.reward_types import JudgeSettings
from dataproxy.rewards.turns import Turn
from dataproxy.rewards.verdicts import question, read_verdict


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None


_answer = msgspec.json.Decoder(_Answer)


@dataclass(slots=True, frozen=True)
class Votes:
    """``scores``: 1, 0, −1 or None (abstains, or did not answer); ``num_answered`` of them came with an answer at all."""

    scores: list[float | None]
    num_answered: int
    num_tokens: int
    nanodollars: int


async def ask(client: httpx.AsyncClient, settings: JudgeSettings, turn: Turn, limit: asyncio.Semaphore) -> Votes:
    """The votes on ``turn``; ``limit`` bounds the requests that are out at once. Never raises for what the judge does."""
    answers = await asyncio.gather(*(_one(client, settings, turn, limit) for _ in range(settings.votes)))
    given = [answer for answer in answers if answer is not None]
    usages = [answer.usage for answer in given if answer.usage is not None]
    num_in, num_out = sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)
    cost = num_in * settings.usd_in * 1000 + num_out * settings.usd_out * 1000  # dollars a million are 1,000 billionths a token
    return Votes([_score(answer) for answer in answers], len(given), num_in + num_out, round(cost))


async def _one(client: httpx.AsyncClient, settings: JudgeSettings, turn: Turn, limit: asyncio.Semaphore) -> _Answer | None:
    key = os.environ.get(settings.key_env, "") if settings.key_env else ""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    url = f"{settings.base_url.rstrip('/')}/chat/completions"
    async with limit:
        try:
            async with asyncio.timeout(settings.timeout_s):  # of the whole answer, not of a read
                response = await client.post(url, json=question(turn, settings), headers=headers, timeout=settings.timeout_s)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
            return None
    if response.status_code != 200:
        return None
    try:
        return _answer.decode(response.content)
    except msgspec.DecodeError:
        return None


def _score(answer: _Answer | None) -> float | None:
    return read_verdict(answer.choices[0].message.content or "") if answer is not None and answer.choices else None
