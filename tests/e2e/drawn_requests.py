"""Requests that agents might send, in all four dialects: mostly right, often odd, now and then wrong. Always the same ones.

Left out is what the gateway answers by itself: fields that are its own to remove (`gateway.parsing.ENGINE_FIELDS`), other models,
and responses in the background without a stream, which cannot be recorded. All are at temperature 0 and ask for a few tokens.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Body = dict[str, Any]
Drawn = st.SearchStrategy[Any]

MOST_TOKENS = 5
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "n": {"type": "integer"}}, "required": ["to"]}
BRIEF = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}


@dataclass(frozen=True)
class DrawnRequest:
    """``body`` goes to ``path``."""

    path: str
    body: Body


def mostly(good: Sequence[Any], odd: Sequence[Any]) -> Drawn:
    """One of the ``good`` values, one time in twenty an ``odd`` one; each may be a strategy."""
    strategies = [[one if isinstance(one, st.SearchStrategy) else st.just(one) for one in values] for values in (good, odd)]
    return st.integers(0, 19).flatmap(lambda number: st.one_of(strategies[number == 13]))


def some_of(values: dict[str, Drawn]) -> Drawn:
    """Up to four of these fields."""
    names = st.lists(st.sampled_from(sorted(values)), max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: values[name] for name in chosen}))


def request(path: str, wanted: dict[str, Drawn], optional: dict[str, Drawn]) -> Drawn:
    """``wanted`` and some of ``optional``, as a stream every other time; one time in six with a fault."""
    base = st.tuples(st.fixed_dictionaries(wanted), STREAMING, some_of(optional)).map(
        lambda three: {"model": "tiny", "temperature": 0, **three[0], **three[1], **three[2]}
    )
    fault = st.tuples(st.integers(0, 17), st.integers(0, 30), st.sampled_from(ODD))
    return st.tuples(base, fault).map(lambda one: DrawnRequest(path, spoiled(one[0], *one[1])))


def spoiled(body: Body, kind: int, which: int, odd: Any) -> Body:
    """``body``, or the same with a field of another type, or one field less.

    Length and model stay: the one bounds the test, the other is the gateway's own matter.
    """
    names = [name for name in body if name not in ("model", "temperature", "max_tokens", "max_output_tokens")]
    name = names[which % len(names)]
    if kind in (11, 12):
        return {**body, name: odd}
    return {key: value for key, value in body.items() if key != name} if kind == 13 else body


ODD: list[Any] = [None, "x", 7, -1, 0.5, True, [], {}, [None], {"a": 1}, "", 1e308]
WORDS = ["hello", "Sort this ticket.", "你好,世界", "naïve 🎉🏳️‍🌈 café", " ", "a" * 200, "<|im_end|>", "<tool_call>{}"]
TEXTS = mostly([*WORDS, 'tab\tnewline\n"quotes" \\ \u200b'], [""])
TOKENS = mostly([st.integers(1, MOST_TOKENS)], [0, -1, 10**9, 10**40, "4", 2.0, 2.5, None])
ARGUMENTS = mostly(['{"to": "a", "n": 1}', '{"to":"\\"\\\\n\\u00e9"}', "{}"], ["not JSON", "", "[1]", {"to": "b"}, {}])

SAMPLING: dict[str, Drawn] = {
    "top_p": mostly([1, 0.5], [0, 2, "x"]),
    "seed": mostly([1, -5], [2**70]),
    "stop": mostly(["e", ["a", "o"], []], ["", ["e", 7], [""]]),
    "frequency_penalty": mostly([0, 1.5, -2], [9, "x"]),
    "presence_penalty": mostly([0.5, 2], [-3]),
    "logit_bias": mostly([{"260": 50}, {"260": -100}, {}], [{"x": 1}, {"99999999": 5}, [1]]),
    "n": mostly([1, 2, 3], [0, -1, "2", None]),
    "user": mostly(["someone", ""], [5]),
    "min_p": mostly([0.1], [3]),
    "top_k": mostly([5, -1], [0]),
    "repetition_penalty": mostly([1.2], [-1]),
    "ignore_eos": st.booleans(),
}
STREAMING = mostly([{"stream": True}, {"stream": False}, {}], [{"stream": None}, {"stream": "yes"}])
ANYWHERE: dict[str, Drawn] = {
    "future_field": st.sampled_from([1, {"deep": [None]}, "x"]),
    "metadata": mostly([{"a": "b"}, {}], ["x"]),
    "service_tier": mostly(["auto"], [3]),
}
STREAMED = {"stream_options": mostly([{"include_usage": True}, {"include_usage": False}, {}, None], ["x"])}

# Chat completions

TEXT_PART = TEXTS.map(lambda text: {"type": "text", "text": text})
IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
CHAT_PART = mostly([TEXT_PART], [IMAGE_PART, {"type": "future", "x": 1}, {"type": "text"}, "bare", {"text": "no type"}])
CHAT_CONTENT = mostly([TEXTS, TEXTS, st.lists(CHAT_PART, max_size=3)], [None, 5])
CALL = ARGUMENTS.map(lambda given: {"id": "call_1", "type": "function", "function": {"name": "route", "arguments": given}})
CALLING = st.tuples(st.one_of(st.none(), TEXTS), st.lists(CALL, max_size=2))


def said(role: str) -> Drawn:
    """A message of ``role``."""
    more = {"tool_call_id": "call_1"} if role == "tool" else {}
    return CHAT_CONTENT.map(lambda content: {"role": role, "content": content, **more})


CHAT_MESSAGE = mostly(
    [
        said("user"),
        said("user"),
        said("assistant"),
        said("system"),
        said("developer"),
        said("tool"),
        CALLING.map(lambda one: {"role": "assistant", "content": one[0], "tool_calls": one[1]}),
        TEXTS.map(lambda text: {"role": "assistant", "content": "said", "reasoning_content": text}),
    ],
    [said("nobody"), {"role": "user"}, {"content": "no role"}, "bare", None],
)
QUESTION = TEXTS.map(lambda text: [{"role": "user", "content": text}])
TOOL = {"type": "function", "function": {"name": "route", "description": "Send on", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "route"}}
FORMATS = [{"type": "json_object"}, {"type": "text"}, {"type": "json_schema", "json_schema": {"name": "a", "schema": BRIEF}}]

CHAT = request(
    "/v1/chat/completions",
    {"messages": mostly([QUESTION, st.lists(CHAT_MESSAGE, min_size=1, max_size=5)], [[]]), "max_tokens": TOKENS},
    SAMPLING
    | ANYWHERE
    | STREAMED
    | {
        "logprobs": mostly([True, False], [2]),
        "top_logprobs": mostly([0, 2, 5], [-1, 100]),
        "tools": mostly([[TOOL], [TOOL, TOOL], []], [[{"type": "function"}], "x"]),
        "tool_choice": mostly(["auto", "none", "required", NAMED], ["x", {"type": "function"}]),
        "parallel_tool_calls": st.booleans(),
        "response_format": mostly(FORMATS, [{"type": "json_schema"}, {"type": "nothing"}]),
        "regex": mostly(["[ab]{3}"], ["(", ""]),
        "reasoning_effort": mostly(["low"], ["x"]),
        "continue_final_message": st.booleans(),
        "max_completion_tokens": st.integers(1, MOST_TOKENS),
    },
)

# Completions

PROMPTS = mostly([TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=2), [1, 300, 400], [[1, 300], [1, 400]]], [[], [10**9], 5])
COMPLETIONS = request(
    "/v1/completions",
    {"prompt": PROMPTS, "max_tokens": TOKENS},
    SAMPLING
    | ANYWHERE
    | STREAMED
    | {
        "logprobs": mostly([0, 2, 5], [True, -1]),
        "echo": st.booleans(),
        "suffix": st.sampled_from(["", "x"]),
        "response_format": mostly(FORMATS, [{"type": "nothing"}]),
        "regex": mostly(["[ab]{3}"], ["("]),
        "best_of": st.sampled_from([1, 2]),
    },
)

# Responses

OUTPUT = {"type": "output_text", "annotations": []}
ITEM = mostly(
    [
        TEXTS.map(lambda text: {"role": "user", "content": text}),
        TEXTS.map(
            lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}, {"type": "input_text", "text": "b"}]}
        ),
        TEXTS.map(lambda text: {"type": "message", "role": "assistant", "content": [{**OUTPUT, "text": text}]}),
        TEXTS.map(lambda text: {"role": "system", "content": text}),
        TEXTS.map(lambda text: {"role": "developer", "content": text}),
        ARGUMENTS.map(lambda given: {"type": "function_call", "call_id": "call_1", "name": "route", "arguments": given}),
        TEXTS.map(lambda text: {"type": "function_call_output", "call_id": "call_1", "output": text}),
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ],
    [{"type": "future"}, {"role": "user"}, "bare", None, {"role": "nobody", "content": "x"}],
)
FUNCTION = {"type": "function", "name": "route", "description": "Send on", "parameters": SCHEMA}
TEXT_FORMATS = [{"format": {"type": "text"}}, {"format": {"type": "json_schema", "name": "a", "schema": BRIEF}}, {}]
RESPONSES = request(
    "/v1/responses",
    {"input": mostly([TEXTS, st.lists(ITEM, min_size=1, max_size=4)], [[]]), "max_output_tokens": TOKENS},
    {name: value for name, value in SAMPLING.items() if name not in ("logit_bias", "n", "ignore_eos")}
    | ANYWHERE
    | {
        "instructions": TEXTS,
        "tools": mostly([[FUNCTION], []], [[{"type": "function"}], [{"type": "web_search"}], "x"]),
        "tool_choice": mostly(["auto", "none", "required", {"type": "function", "name": "route"}], ["x"]),
        "parallel_tool_calls": st.booleans(),
        "text": st.sampled_from(TEXT_FORMATS),
        "reasoning": mostly([{"effort": "low"}, {}, None], ["x"]),
        "truncation": mostly(["auto", "disabled"], ["x"]),
        "store": st.booleans(),
        "include": mostly([[], ["message.output_text.logprobs"]], [["reasoning.encrypted_content"], "x"]),
        "background": mostly([False, True], ["x"]),
        "top_logprobs": mostly([0, 2], [50]),
        "max_tool_calls": mostly([1], [0, "x"]),
    },
).filter(lambda drawn: drawn.body.get("background") is not True or drawn.body.get("stream") is True)

# Messages

BLOCK = mostly(
    [
        TEXT_PART,
        TEXT_PART,
        {"type": "tool_use", "id": "toolu_1", "name": "route", "input": {"to": "a"}},
        {"type": "thinking", "thinking": "hm", "signature": ""},
        TEXTS.map(lambda text: {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}),
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "no"}], "is_error": True},
    ],
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "future"},
        {"type": "text"},
    ],
)
BLOCKS = st.lists(BLOCK, min_size=1, max_size=3)
TURN = st.tuples(mostly(["user", "user", "assistant"], ["system", "nobody"]), st.one_of(TEXTS, BLOCKS))
TURNS = st.lists(TURN.map(lambda one: {"role": one[0], "content": one[1]}), min_size=1, max_size=4)
ANTHROPIC_TOOL = {"name": "route", "description": "Send on", "input_schema": SCHEMA}
CHOICES = [{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": "route"}]
MESSAGES = request(
    "/v1/messages",
    {"messages": mostly([QUESTION, TURNS], [[]]), "max_tokens": TOKENS},
    {name: SAMPLING[name] for name in ("top_p", "top_k")}
    | ANYWHERE
    | {
        "system": st.one_of(TEXTS, st.lists(TEXT_PART, max_size=2)),
        "stop_sequences": mostly([["e"], ["a", "o"], []], ["e"]),
        "tools": mostly([[ANTHROPIC_TOOL], []], [[{"name": "route"}], "x"]),
        "tool_choice": mostly(CHOICES, [{"type": "x"}, "auto"]),
        "thinking": mostly([{"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}], [{"type": "x"}]),
        "output_config": mostly([{"effort": "low"}, {"format": {"type": "json_schema", "schema": BRIEF}}, {}], [{"effort": "x"}]),
    },
)
COUNT = MESSAGES.map(lambda drawn: DrawnRequest("/v1/messages/count_tokens", drawn.body))

SHARES = ((CHAT, 6), (COMPLETIONS, 4), (RESPONSES, 5), (MESSAGES, 4), (COUNT, 1))
"""How many of twenty requests are of each kind."""


def draw(number: int) -> list[DrawnRequest]:
    """``number`` different requests, the same ones in every run; a multiple of twenty."""
    return [one for strategy, share in SHARES for one in _distinct(strategy, number * share // 20)]


def _distinct(strategy: Drawn, number: int) -> list[DrawnRequest]:
    found: dict[str, DrawnRequest] = {}

    @settings(
        max_examples=8 * number, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(drawn: DrawnRequest) -> None:
        found.setdefault(json.dumps(drawn.body), drawn)

    collect()
    assert len(found) >= number
    return list(found.values())[:number]
