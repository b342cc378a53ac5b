"""How many turns of a tool-using session extend the turn before: the goal is 95 % for each template."""

import json
import random
from typing import Any

import pytest

from tests.workers.inference.continuity.engine import TOOLS, Engine, Exchange
from tests.workers.inference.continuity.families import FAMILIES, MISTRAL_V0_3, QWEN3, Draft, Family
from tests.workers.inference.continuity.oracle import check

NUM_TURNS = 20
GOAL = 0.95


def session(engine: Engine, user_turns: tuple[int, ...], seed: int = 0) -> list[Exchange]:
    """A session of 20 calls; a user speaks before each of `user_turns`, tools answer before the others."""
    chance = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Use tools."}] if engine.family.has_system else []
    exchanges: list[Exchange] = []
    for number in range(NUM_TURNS):
        if number in user_turns:
            messages.append({"role": "user", "content": f"Question {number}: where is it?"})
        ends = number + 1 in user_turns
        draft = _draft(number, ends, chance, engine.family)
        exchanges.append(engine.ask(messages, draft))
        check(exchanges[-1], exchanges[:-1], engine.family)
        messages.append(as_agents_echo(exchanges[-1].answer, chance))
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": f"result {number} é\n"}
            for call in messages[-1].get("tool_calls") or []
        ]
    return exchanges


def _draft(number: int, ends: bool, chance: random.Random, family: Family) -> Draft:
    reasoning = f"step {number}: think\nabout it" if family.name.endswith("-thinking") and "not" not in family.name else ""
    if ends:
        return Draft(f"It is number {number}.", reasoning=reasoning)
    calls = tuple(
        (
            chance.choice(["search", "read"]),
            {"query": f"naïve {number}", "limit": chance.random(), "deep": {"b": 1, "a": '"\\"\\\\n"'}},
        )
        for _ in range(chance.randint(1, family.max_calls))
    )
    return Draft(chance.choice(["", "Let me look."]), calls, reasoning)


def as_agents_echo(answer: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Reasoning left out; arguments with other key order and white space; "" for null."""
    echo = {key: value for key, value in answer.items() if key != "reasoning_content"}
    echo["content"] = echo["content"] if echo["content"] else chance.choice(["", None])
    if "tool_calls" in echo:
        echo["tool_calls"] = [{**call, "function": _reordered(call["function"])} for call in echo["tool_calls"]]
    return echo


def _reordered(function: dict[str, Any]) -> dict[str, Any]:
    arguments = json.loads(function["arguments"])
    return {**function, "arguments": json.dumps(dict(reversed(arguments.items())), indent=1)}


def share(exchanges: list[Exchange]) -> float:
    return sum(exchange.is_extended for exchange in exchanges) / len(exchanges)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_session_with_one_task_extends_all_turns_but_the_first(family: Family) -> None:
    assert share(session(Engine(family), (0,))) >= GOAL


@pytest.mark.parametrize("family", [family for family in FAMILIES if family is not MISTRAL_V0_3], ids=lambda family: family.name)
def test_a_session_in_which_the_user_speaks_again_extends_all_turns_but_the_first(family: Family) -> None:
    assert share(session(Engine(family), (0, 6, 7, 13))) >= GOAL


def test_a_template_that_moves_its_tools_is_rendered_where_the_user_speaks_again() -> None:
    engine = Engine(MISTRAL_V0_3)
    exchanges = session(engine, (0, 6, 13))
    assert [number for number, exchange in enumerate(exchanges) if not exchange.is_extended] == [0, 6, 13]
    assert engine.continuity.counts()["rendered"] == {"first_turn": 1, "history_rewritten": 2}


def test_sampled_reasoning_stays_in_the_prompt_that_the_template_would_strip() -> None:
    exchanges = session(Engine(QWEN3), (0, 6, 7, 13))
    assert QWEN3.decode(exchanges[-1].prompt_ids).count("</think>") == NUM_TURNS - 1
    assert exchanges[-1].stock_text.count("</think>") == 0  # the echoes left it out


def test_only_new_messages_are_rendered_besides_the_engines_own_rendering() -> None:
    exchanges = session(Engine(QWEN3), (0,))
    for exchange in exchanges:
        assert exchange.num_dummy_messages <= 8  # thrice the dummy's user, twice the answer, at most three results


def test_tools_are_cut_to_one_in_the_dummy_rendering_and_whole_in_the_prompt() -> None:
    exchanges = session(Engine(QWEN3), (0,))
    assert all(QWEN3.decode(exchanges[-1].prompt_ids).count(f"to {tool['function']['name']}") == 1 for tool in TOOLS)
