"""The thread that gives rewards by agents' rules: looks at new events, asks judges. Nothing of it is on the drain's path."""

import asyncio
import logging
import threading
from collections.abc import Callable

import httpx
from sqlalchemy.exc import OperationalError

from dataproxy.rewards.judge import Judge
from dataproxy.rewards.sources import sweep
from dataproxy.store.database import Database

logger = logging.getLogger(__name__)
_LOOK_S = 1.0
_LONGEST_PAUSE_S = 60.0
_STOP_LOOK_S = 0.2


class RewardWorker:
    """Runs until told to stop; a judge that is being asked then is asked again after the next start."""

    def __init__(self, database: Database, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us
        self._judge = Judge(database, now_us)

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set. A database that is busy or full is tried again."""
        asyncio.run(self._run(stop))

    async def _run(self, stop: threading.Event) -> None:
        pause_s = _LOOK_S
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False) as client:
            while not stop.is_set():
                work = asyncio.create_task(self._round(client))
                while not work.done():
                    await asyncio.wait({work}, timeout=_STOP_LOOK_S)
                    if stop.is_set():
                        work.cancel()
                if work.cancelled():
                    return
                busy, answered = work.result()
                pause_s = _LOOK_S if answered else min(2 * pause_s, _LONGEST_PAUSE_S)
                if not busy or not answered:
                    await asyncio.to_thread(stop.wait, pause_s)

    async def _round(self, client: httpx.AsyncClient) -> tuple[bool, bool]:
        """(whether there may be more to do at once, whether every judge answered)."""
        busy, answered = False, True
        try:
            num_looked = await asyncio.to_thread(sweep, self._database, self._now_us)
            num_judged, answered = await self._judge.run_once(client)
            busy = num_looked + num_judged > 0
        except* OperationalError as refused:  # each verdict is stored by a task of its own
            logger.error("the store refused %s times what rewards asked of it, trying again", len(refused.exceptions))
        return busy, answered
