"""The next-state judge at work: turns that wait are asked about, and rewarded or masked; what it knows lies in the store.

Each verdict is stored with its reward in one transaction, only while the turn still waits: a kill between asking and storing asks
again, and nothing is rewarded twice. A judge that does not answer is asked again a few times, and then abstains.
"""

import asyncio
from collections.abc import Callable

import httpx

from atdp.errors import InvalidEvent
from dataproxy.client.reward_types import JudgeSettings
from dataproxy.rewards.asking import Votes, ask
from dataproxy.rewards.turns import Turn, turn_of
from dataproxy.rewards.verdicts import tally
from dataproxy.store.agents import sources_of
from dataproxy.store.database import Database
from dataproxy.store.judgements import Waiting, next_waiting, note_attempt, settle
from dataproxy.store.reading import find_event
from dataproxy.store.rewards import given_by_rule, insert_reward

_BATCH = 64


class Judge:
    """Judges what waits in ``database``; ``now_us`` gives UTC µs. Use it from one event loop."""

    def __init__(self, database: Database, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us

    async def run_once(self, client: httpx.AsyncClient) -> tuple[int, bool]:
        """Ask about those that have waited longest; gives (their number, whether every judge answered)."""
        batch = await asyncio.to_thread(self._batch)
        limits: dict[tuple[str, str], asyncio.Semaphore] = {}
        async with asyncio.TaskGroup() as group:
            tasks = []
            for item, settings, turn in batch:
                limit = limits.setdefault((item.tenant, item.agent), asyncio.Semaphore(settings.max_concurrency))
                tasks.append(group.create_task(self._judge(client, item, settings, turn, limit)))
        return len(batch), all(task.result() for task in tasks)

    async def _judge(
        self, client: httpx.AsyncClient, item: Waiting, settings: JudgeSettings, turn: Turn, limit: asyncio.Semaphore
    ) -> bool:
        votes = await ask(client, settings, turn, limit)
        await asyncio.to_thread(self._store, item, settings, votes)
        return votes.num_answered > 0

    def _batch(self) -> list[tuple[Waiting, JudgeSettings, Turn]]:
        """What waits, with its texts. What cannot be judged any more is settled on the way."""
        ready, void = [], []
        with self._database.read() as connection:
            for item in next_waiting(connection, _BATCH):
                settings = sources_of(connection, item.tenant, item.agent).judge
                try:
                    before = find_event(connection, item.tenant, item.event_id)
                    later = find_event(connection, item.tenant, item.next_event)
                except InvalidEvent:  # erased in part
                    before = later = None
                if settings is None or before is None or later is None or before.m.get("erased") or later.m.get("erased"):
                    void.append(item)
                else:
                    ready.append((item, settings, turn_of(before, later)))
        if void:
            with self._database.write() as connection:
                for item in void:
                    settle(connection, item, "dropped", [], 0, 0, self._now_us())
        return ready

    def _store(self, item: Waiting, settings: JudgeSettings, votes: Votes) -> None:
        score = tally(votes.scores)
        with self._database.write() as connection:
            now_us = self._now_us()
            if votes.num_answered == 0 and item.attempts + 1 < settings.max_attempts:
                note_attempt(connection, item, votes.num_tokens, votes.nanodollars)
                return
            state = "abstained" if score is None else "rewarded"
            settled = settle(connection, item, state, votes.scores, votes.num_tokens, votes.nanodollars, now_us)
            if settled and score is not None:
                turn = ("event", item.event_id, item.trajectory_id)
                why = f"{votes.scores.count(score)} of {len(votes.scores)} votes of {settings.model} on what came next"
                insert_reward(
                    connection, given_by_rule(item.tenant, turn, "next_state", score * settings.weight, "next_state", now_us, why)
                )
