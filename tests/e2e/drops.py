"""Connections that are opened and dropped at every point of a call, many at once; all that may be left of them is in the journal.

`drop_many` makes them; the tests look at gateway and engine before and after.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.cases.edge import Edge
from tests.cases.speech import ALL, Speech
from tests.cases.wire import Cut, Wire, request

NUM_AT_ONCE = 40
MAX_WAIT_S = 0.01
"""How long an agent that waits in silence stays, at most: no synchronisation, but where in the call it leaves."""

MOST_BYTES = 60
"""How much of a stream is read at most: less than any engine here gives."""

Ask = Callable[[Speech, random.Random, bool], dict[str, Any]]
"""(dialect, chance, whether it streams) → the body of a call that would go on for long."""


@dataclass
class Drops:
    """What was dropped: ``events`` are the exchanges of which the head had come, ``points`` how often each point was hit."""

    events: set[str] = field(default_factory=set)
    points: Counter[str] = field(default_factory=Counter)


async def drop_many(edge: Edge, number: int, ask: Ask, chance: random.Random) -> Drops:
    """Open and drop ``number`` connections."""
    drops, left = Drops(), iter(range(number))

    async def worker() -> None:
        for _ in left:
            point = chance.choice(list(POINTS))
            wire = await Wire.open(edge.port)
            try:
                await POINTS[point](wire, chance.choice(ALL), ask, chance, drops)
            except Cut:
                drops.points["refused"] += 1
            finally:
                drops.points[point] += 1
                chance.choice([Wire.leave, Wire.vanish])(wire)

    async with asyncio.TaskGroup() as group:
        for _ in range(NUM_AT_ONCE):
            group.create_task(worker())
    return drops


async def before_the_request(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves with some of the head sent, or none."""
    raw = request(speech.path, ask(speech, chance, True))
    wire.send(raw[: chance.randrange(raw.index(b"\r\n\r\n"))])


async def in_the_body(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves with a part of the body sent."""
    raw = request(speech.path, ask(speech, chance, True))
    wire.send(raw[: chance.randrange(raw.index(b"\r\n\r\n") + 4, len(raw))])
    await asyncio.sleep(chance.uniform(0, MAX_WAIT_S))


async def at_once(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves as soon as it has asked."""
    wire.ask(speech.path, ask(speech, chance, True))


async def in_silence(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves while it waits for an answer that comes whole, or for a stream to begin."""
    wire.ask(speech.path, ask(speech, chance, chance.random() < 0.5))
    await asyncio.sleep(chance.uniform(0, MAX_WAIT_S))


async def after_the_head(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves when the stream has begun."""
    wire.ask(speech.path, ask(speech, chance, True))
    drops.events.add((await wire.head()).event_id)


async def in_the_stream(wire: Wire, speech: Speech, ask: Ask, chance: random.Random, drops: Drops) -> None:
    """Leaves after some of the stream."""
    await after_the_head(wire, speech, ask, chance, drops)
    wanted = chance.randint(1, MOST_BYTES)
    while len(wire.text) < wanted and await wire.piece():
        pass


POINTS = {one.__name__: one for one in (before_the_request, in_the_body, at_once, in_silence, after_the_head, in_the_stream)}
