"""The pollers outlive what they meet."""

import asyncio
import logging

import pytest

from gateway.polling import repeat


async def test_a_poller_goes_on_after_a_round_that_failed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []
    third = asyncio.Event()

    async def action() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise ZeroDivisionError("unforeseen")
        if len(rounds) == 3:
            third.set()

    with caplog.at_level(logging.ERROR):
        task = asyncio.create_task(repeat(action, 0.0))
        await asyncio.wait_for(third.wait(), 10)
        task.cancel()
    assert "unforeseen" in caplog.text
