"""For any conversation, any template and whatever agents do to their history: extended exactly, or rendered as stock."""

import json
import random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.workers.inference.continuity.engine import TOOLS, Engine, Exchange
from tests.workers.inference.continuity.families import FAMILIES, Draft, Family
from tests.workers.inference.continuity.oracle import check
from workers.inference.continuity.template import TemplateRefused

PLAIN = st.text(alphabet='ab é中\n"\\{}<1 ', max_size=12)
MARKED = st.one_of(
    PLAIN, st.sampled_from(["<|im_end|>", "a</s>b", "<think>\nhm", "x</think>y", "<|eot_id|>\n", "[/INST]", "<|im_start|>"])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), PLAIN),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(PLAIN, inner, max_size=2)),
    max_leaves=4,
)
CALLS = st.lists(st.tuples(st.sampled_from(["search", "read"]), st.dictionaries(PLAIN, JSON, max_size=3)), max_size=2)
DRAFTS = st.builds(Draft, PLAIN, CALLS.map(tuple), PLAIN)
ACTIONS = st.lists(
    st.fixed_dictionaries(
        {
            "base": st.integers(0, 30),
            "draft": DRAFTS,
            "text": MARKED,
            "edit": st.sampled_from([None] * 8 + ["answer", "history", "drop_call", "id"]),
            "finish": st.sampled_from(["stop"] * 6 + ["length"]),
            "salt": st.sampled_from(["a", "a", "a", "b"]),
            "tools": st.sampled_from([TOOLS, TOOLS, TOOLS, TOOLS[:2], None]),
            "choices": st.sampled_from([1, 1, 1, 2]),
            "seed": st.integers(0, 1000),
        }
    ),
    min_size=3,
    max_size=10,
)


def rewritten(messages: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """The same history as an agent may write it this time."""
    return [_rewritten(message, chance) if message["role"] == "assistant" else message for message in messages]


def _rewritten(message: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    echo = {key: value for key, value in message.items() if key != "reasoning_content" or chance.random() < 0.5}
    if not echo.get("content"):
        echo["content"] = chance.choice(["", None])
    if "tool_calls" in echo:
        echo["tool_calls"] = [{**call, "function": _reordered(call["function"], chance)} for call in echo["tool_calls"]]
    return echo


def _reordered(function: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    items = list(json.loads(function["arguments"]).items())
    chance.shuffle(items)
    return {**function, "arguments": json.dumps(dict(items), indent=chance.choice([None, 2]), ensure_ascii=chance.random() < 0.5)}


def edited(messages: list[dict[str, Any]], edit: str | None, chance: random.Random) -> list[dict[str, Any]]:
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if edit is None or not answers:
        return messages
    at = 0 if edit == "history" else chance.choice(answers)
    message = dict(messages[at])
    if edit == "drop_call":
        message.pop("tool_calls", None)
    elif edit == "id" and "tool_calls" in message:
        message["tool_calls"] = [{**call, "id": "changed99"} for call in message["tool_calls"]]
    else:
        message["content"] = "edited"
    return [*messages[:at], message, *messages[at + 1 :]]


def following(answer: dict[str, Any], text: str) -> list[dict[str, Any]]:
    calls = answer.get("tool_calls", ())
    if not calls:
        return [{"role": "user", "content": text}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(actions=ACTIONS)
@settings(max_examples=30)
def test_prompts_extend_exactly_or_are_stock(family: Family, actions: list[dict[str, Any]]) -> None:
    engine = Engine(family)
    histories: list[list[dict[str, Any]]] = [[{"role": "user", "content": "Where is it?"}]]
    earlier: dict[str, list[Exchange]] = {"a": [], "b": []}
    for action in actions:
        chance = random.Random(action["seed"])
        base = histories[action["base"] % len(histories)]
        messages = edited(rewritten(base, chance), action["edit"], chance)
        options = {"salt": action["salt"], "tools": action["tools"], "finish": action["finish"], "num_choices": action["choices"]}
        try:
            exchange = engine.ask(messages, action["draft"], **options)
        except TemplateRefused:
            event("the template refuses the conversation")
            continue
        event(f"extended: {exchange.is_extended}")
        check(exchange, earlier[action["salt"]], family)
        earlier[action["salt"]].append(exchange)
        histories.append([*base, exchange.answer, *following(exchange.answer, action["text"])])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(turns=st.lists(st.tuples(DRAFTS, PLAIN), min_size=2, max_size=6), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_an_honest_session_of_one_user_extends_every_turn(family: Family, turns: list[tuple[Draft, str]], seed: int) -> None:
    """No edits and no marks in texts: whatever the answers hold, each turn extends the one before."""
    engine = Engine(family, seed=seed)
    chance = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Where is it?"}]
    last: Exchange | None = None
    for draft, text in turns:
        calls = draft.calls or (("search", {"query": text}),)
        exchange = engine.ask(rewritten(messages, chance), Draft(draft.content, calls, draft.reasoning))
        assert last is None or exchange.prompt_ids[: len(last.ids)] == last.ids
        check(exchange, [last] if last else [], family)
        messages += [exchange.answer, *following(exchange.answer, text)]
        last = exchange
