"""A session of twenty turns through the real data proxy: one joined row has the gradient of twenty overlapping ones."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from atdp.samples import TrainSample, TurnSpan
from dataproxy.client.types import Feedback, LeaseRequest
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.leases import grant_lease
from tests.dataproxy.exchanges import MAC_SECRET, exchange, record, user, write
from tests.dataproxy.proxy import Clock, Proxy
from tests.workers.trainer.micro import VOCABULARY, sequence
from tests.workers.trainer.test_step import assert_close, gradients, reference_gradients
from workers.trainer.credit import PerTurn
from workers.trainer.ranks import Ranks
from workers.trainer.rows import build_rows

TURNS = 20
Call = tuple[list[int], list[int]]


def calls() -> list[Call]:
    """Prompt and output ids of each turn; a prompt is everything before and six new tokens."""
    random, prompt, result = np.random.default_rng(5), np.random.default_rng(4).integers(3, 90, 20).tolist(), []
    for _ in range(TURNS):
        prompt = [*prompt, *random.integers(3, 90, 6).tolist()]
        output = random.integers(3, 90, 4).tolist()
        result.append((prompt, output))
        prompt = [*prompt, *output]
    return result


def recorded(directory: Path, session: list[Call]) -> TrainSample:
    """What a lease gives after the session was journaled, drained, rewarded and assembled."""
    proxy = Proxy(directory, Clock())
    proxy.consent()
    pairs = []
    for prompt, output in session:
        asked, got = exchange([user("q")], session="s-1", started_us=proxy.clock(), ended_us=proxy.clock())
        told = record(asked.completion_id, prompt, [output], logprobs=[[-4.0] * len(output)])
        pairs.append((asked, msgspec.structs.replace(got, record=told)))
        proxy.clock.advance(1)
    journal = proxy.journal()
    asyncio.run(write(journal, *pairs))
    journal.close()
    proxy.drain()
    with proxy.services.database.write() as connection:
        desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
        give_feedback(connection, desk, Feedback(pairs[-1][0].event_id, 1.0), "key-1", proxy.clock())
    proxy.clock.advance(1000)
    request = LeaseRequest(8, 60.0, "v000000", 2, 1)
    with proxy.services.database.write() as connection:
        lease = grant_lease(connection, request, "acme", "key-1", None, proxy.clock(), 0.0)
    proxy.services.database.close()
    (sample,) = lease.samples
    return sample


def overlapping(sample: TrainSample, session: list[Call]) -> TrainSample:
    """The same trajectory with a row for each call."""
    rows = []
    for index, (prompt, output) in enumerate(session):
        ids = [*prompt, *output]
        places = range(len(prompt), len(ids))
        rows.append(sequence(ids, places, turns=[TurnSpan(f"call-{index}", len(prompt), len(ids))]))
    return msgspec.structs.replace(sample, sequences=rows)


def test_a_joined_session_has_the_gradient_of_its_overlapping_calls_for_a_fraction_of_the_tokens(
    tmp_path: Path, micro: Path, ranks: Ranks
) -> None:
    session = calls()
    sample = recorded(tmp_path, session)
    joined = build_rows([sample], [PerTurn(0.7)], head_index=0)
    apart = build_rows([overlapping(sample, session)], [PerTurn(0.7)], head_index=0)
    assert len(joined) == 1 and len(apart) == TURNS
    assert sum(row.trained.sum() for row in joined) == sum(row.trained.sum() for row in apart) == 4 * TURNS
    assert max(row.token_ids.max() for row in joined) < VOCABULARY
    assert_close(gradients(micro, ranks, joined), reference_gradients(micro, apart))  # row by row: nothing is shared
    ratio = sum(len(row.token_ids) for row in apart) / sum(len(row.token_ids) for row in joined)
    assert ratio == pytest.approx(sum(len(p) + len(o) for p, o in session) / len(session[-1][0] + session[-1][1])) and ratio >= 5
