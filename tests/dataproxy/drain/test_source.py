"""Exchanges out of the journal: each one once, however many are asked for at a time and whatever shares a seal."""

import asyncio
from pathlib import Path

import pytest

from dataproxy.capture import Journal
from dataproxy.capture.sealing import generate_keypair
from dataproxy.drain.source import JournalSource
from tests.dataproxy.capture.halves import request_half, response_half

PRIVATE, PUBLIC = generate_keypair()


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_limit_inside_a_sealed_batch_repeats_and_loses_nothing(tmp_path: Path, limit: int) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    names = [f"e{number}" for number in range(7)]
    for name in names:
        journal.begin(request_half(name))
    await asyncio.gather(*(journal.finish(response_half(name)) for name in names))
    source = JournalSource(tmp_path, lambda: [PRIVATE], {})
    found = []
    for _ in names:
        found += [exchange.request.event_id for exchange in source.poll(limit)]
        source.settle()
    assert sorted(found) == names and source.backlog_bytes() == 0 and not source.take_orphans()
    journal.close()
