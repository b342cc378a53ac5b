"""Histories that agents send back changed: null for nothing, reasoning kept, dropped or moved, turns that are rendered anew."""

import json
from typing import Any

import numpy as np
import pytest

from tests.cases.drained import decisions, drain, read, rows, segments
from tests.cases.edge import Edge
from tests.cases.lent import lent, store
from tests.cases.speech import CHAT
from tests.dataproxy.exchanges import exchange, said, user
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

THOUGHT, ANSWER = "first I look, then I leap", "leap"
QUESTION = {"role": "user", "content": "what now?"}
ECHOES = {
    "reasoning kept": {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT},
    "reasoning under another name": {"role": "assistant", "content": ANSWER, "reasoning": THOUGHT},
    "reasoning left out": {"role": "assistant", "content": ANSWER},
    "reasoning moved into the text": {"role": "assistant", "content": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"},
    "an empty thought in the text": {"role": "assistant", "content": f"<think>\n\n</think>\n\n{ANSWER}"},
    "text in parts": {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
    "white space at its ends": {"role": "assistant", "content": f"\n\n{ANSWER} "},
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_however_reasoning_is_echoed_it_is_the_same_branch(
    edge: Edge, engine: FakeEngine, proxy: Proxy, echo: dict[str, Any]
) -> None:
    engine.model.reply = lambda body: f"<think>{THOUGHT}</think>{ANSWER}"
    wire = await edge.open()
    wire.ask(CHAT.path, {"model": "tiny", "messages": [QUESTION]})
    first, body = await wire.answer()
    message = json.loads(body)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == (ANSWER, THOUGHT)
    wire.ask(CHAT.path, {"model": "tiny", "messages": [QUESTION, echo, {"role": "user", "content": "go on"}]})
    second, _ = await wire.answer()
    await drain(edge, proxy, [first.event_id, second.event_id])
    found = rows(proxy)
    assert found[second.event_id].parent_id == first.event_id
    assert found[second.event_id].trajectory_id == found[first.event_id].trajectory_id
    assert read(proxy, second.event_id).o["messages"][1] == echo  # kept as it was sent
    assert set(decisions(proxy).values()) == {"eligible"}


NOTHINGS: list[dict[str, Any]] = [{"content": None}, {"content": ""}, {}, {"content": []}]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


@pytest.mark.parametrize("came", NOTHINGS[:2])
@pytest.mark.parametrize("echoed", NOTHINGS)
async def test_no_content_and_empty_content_beside_calls_are_one_turn_and_neither_is_dropped(
    proxy: Proxy, came: dict[str, Any], echoed: dict[str, Any]
) -> None:
    answer = {"role": "assistant", **came, "tool_calls": [CALL]}
    echo = {"role": "assistant", **echoed, "tool_calls": [CALL]}
    first = exchange([QUESTION], answers=[answer], prompt=[1])
    second = exchange([QUESTION, echo, RESULT], prompt=[1, 2], started_us=2_000_000)
    await store(proxy, first, second)
    assert rows(proxy)[second[0].event_id].parent_id == first[0].event_id
    assert read(proxy, first[0].event_id).a["messages"] == [answer]
    assert read(proxy, second[0].event_id).o["messages"] == [QUESTION, echo, RESULT]


async def test_turns_that_a_template_renders_anew_are_branches_of_which_each_is_in_the_loss(proxy: Proxy) -> None:
    first = exchange([user("a")], "b", prompt=[1, 2], outputs=[[3, 4, 5]])
    stripped = exchange([user("a"), said("b"), user("c")], "d", prompt=[1, 2, 4, 5, 6], outputs=[[7, 8]], started_us=2_000_000)
    joined = exchange([user("a"), said("b"), user("c")], "e", prompt=[1, 2, 3, 4, 5, 6], outputs=[[9]], started_us=3_000_000)
    await store(proxy, first, stripped, joined)
    parents = {key: row.parent_event for key, row in segments(proxy).items()}
    assert parents[stripped[0].event_id, 0] is None and parents[joined[0].event_id, 0] == first[0].event_id
    (sample,) = lent(proxy, first[0].event_id).samples
    found = sorted((row.ids().tolist(), np.flatnonzero(row.mask()).tolist()) for row in sample.sequences)
    assert found == [([1, 2, 3, 4, 5, 6, 9], [2, 3, 4, 6]), ([1, 2, 4, 5, 6, 7, 8], [5, 6])]
