"""Requests with one wrong value each: every field that the engine knows, and every value inside of a rich request, replaced."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from gateway.parsing import ENGINE_FIELDS

Body = dict[str, Any]
Case = tuple[str, str, Body]
"""Path, what is wrong, and the body."""

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
ODD: list[Any] = [
    *(None, "x", "", 7, -1, 0, 0.5, 1e308, 10**40, True, [], {}, [None], [[]], [1], ["x"], {"a": None}, [{}], [[None]]),
    *("\u00ed\u00a0\u0080", "a" * 5000, {"type": None}, {"type": ["x"]}, -(2**63) - 1),
]
GONE = object()

PLAIN: dict[str, Body] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
    "/v1/completions": {"prompt": "hi", "max_tokens": 2},
    "/v1/responses": {"input": "hi", "max_output_tokens": 2},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/embeddings": {"input": "hi"},
}
_FUNCTION = {"name": "route", "description": "d", "parameters": SCHEMA, "strict": True}
_CALL = {"id": "c1", "type": "function", "index": 0, "function": {"name": "route", "arguments": "{}"}}
_CHAT_TURNS = [
    {"role": "system", "content": [{"type": "text", "text": "s"}]},
    {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
    {"role": "user", "content": "x", "name": "n"},
]
_ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "t", "annotations": []}]},
    {"type": "function_call", "call_id": "c", "id": "f", "name": "route", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "s"}]},
]
_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}], "is_error": True}
_TURNS = [
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "route", "input": {"to": "a"}}]},
    {"role": "user", "content": [_RESULT]},
]
_MESSAGES: Body = {
    "messages": _TURNS,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "route", "description": "d", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "route"},
    "thinking": {"type": "enabled", "budget_tokens": 100},
    "stop_sequences": ["e"],
}
RICH: dict[str, Body] = {
    "/v1/chat/completions": {
        "messages": _CHAT_TURNS,
        "tools": [{"type": "function", "function": _FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "route"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}},
        "stream_options": {"include_usage": True},
        "logit_bias": {"260": 5},
        "stop": ["e"],
        "chat_template_kwargs": {"tokenize": False},
    },
    "/v1/completions": {"prompt": ["a", "b"], "stop": ["e"], "logit_bias": {"260": 1}, "response_format": {"type": "json_object"}},
    "/v1/responses": {
        "input": _ITEMS,
        "tools": [{"type": "function", **_FUNCTION}],
        "tool_choice": {"type": "function", "name": "route"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "/v1/messages": _MESSAGES,
    "/v1/messages/count_tokens": _MESSAGES,
    "/v1/embeddings": {"input": [[1, 2], [3]], "encoding_format": "float"},
}


def cases(fields: dict[str, list[str]], num_odd: int) -> Iterator[Case]:
    """Every place with ``num_odd`` of the odd values, other ones for each; ``fields`` are those of the engine by path.

    A length without a limit is no wrong value, only a long answer.
    """
    turn = 0
    for path, plain in PLAIN.items():
        known = [name for name in fields[path] if name not in ENGINE_FIELDS | {"model"} and not name.startswith("bootstrap_")]
        places = [(plain, (name,)) for name in known]
        for name, value in RICH[path].items():
            tools = {"tools": RICH[path]["tools"]} if name == "tool_choice" else {}
            body = {**plain, **tools, name: value}
            places += [(body, (name, *rest)) for rest in _inside(value)]
        for body, place in places:
            for odd in _some([*ODD, GONE], turn, num_odd):
                if not ("tokens" in str(place[-1]) and (odd is None or odd is GONE)):
                    streamed = {"stream": True} if turn % 2 and path in list(PLAIN)[:4] else {}
                    yield (
                        path,
                        f"{place} = {'nothing' if odd is GONE else json.dumps(odd)[:60]}",
                        {**streamed, **_put(body, place, odd)},
                    )
            turn += num_odd


def _some(values: list[Any], turn: int, number: int) -> list[Any]:
    return [values[(turn + step) % len(values)] for step in range(min(number, len(values)))]


def _inside(value: Any) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in pairs:
        yield (step,)
        for rest in _inside(inner):
            yield (step, *rest)


def _put(body: Body, place: tuple[Any, ...], value: Any) -> Body:
    changed: Body = copy.deepcopy(body)
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    if value is not GONE:
        inner[place[-1]] = value
    elif isinstance(inner, list) or place[-1] in inner:
        del inner[place[-1]]
    return changed
