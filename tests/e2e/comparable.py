"""Answers of one engine to one request, made comparable: what differs between any two calls is taken out, everything else stays.

Taken out: ids, times, the number of an event, and where SGLang happened to cut a text into chunks.
"""

import json
from collections.abc import Iterator
from typing import Any

_VARIES = frozenset(
    (
        "id",
        "item_id",
        "call_id",
        "tool_use_id",
        "request_id",
        "created",
        "created_at",
        "completed_at",
        "sequence_number",
        "signature",
    )
)
_JOINED = frozenset(("content", "reasoning_content", "text", "thinking", "partial_json", "delta", "refusal", "arguments"))
_LISTS = frozenset(("tokens", "token_logprobs", "top_logprobs", "text_offset", "content", "logprobs"))
_NOW_AND_THEN = frozenset(("finish_reason", "matched_stop", "logprobs"))
_APART = object()


def comparable(content_type: str, body: bytes) -> Any:
    """``body`` as JSON values, streams as the list of their events; text where it is neither."""
    if content_type.startswith("text/event-stream"):
        return _joined(list(_events(body)))
    try:
        return _scrubbed(json.loads(body))
    except ValueError:
        return body.decode(errors="replace")


def _events(body: bytes) -> Iterator[tuple[str, Any]]:
    """(name, document) of each event; what is no such event is kept as it is."""
    for block in body.decode(errors="replace").split("\n\n"):
        name, _, data = block.rpartition("data: ")
        try:
            yield name, _scrubbed(json.loads(data))
        except ValueError:
            if block:
                yield "", block


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name in _VARIES and one is not None else _scrubbed(one) for name, one in value.items()}
    return [_scrubbed(one) for one in value] if isinstance(value, list) else value


def _joined(events: list[tuple[str, Any]]) -> Any:
    """The events in order, each run of texts of one place as one; choices that interleave are set side by side."""
    lanes: dict[Any, list[Any]] = {}
    for name, document in events:
        lane = lanes.setdefault(_place(document), [])
        merged = _merged(lane[-1][1], document) if lane and name == lane[-1][0] and isinstance(document, dict) else _APART
        if merged is not _APART:
            lane[-1] = (name, merged)
            continue
        lane.append((name, document))
    return sorted(([str(place), lane] for place, lane in lanes.items()), key=lambda one: str(one[0]))


def _place(document: Any) -> Any:
    """Which choice a chunk is of; everything else is in one line."""
    choices = document.get("choices") if isinstance(document, dict) else None
    return choices[0].get("index") if choices else "rest"


def _merged(before: Any, after: Any) -> Any:
    """Two pieces as one where they differ in nothing but their text and what ends it, else ``_APART``."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        merged = {name: _merged_field(name, before[name], after[name]) for name in before}
        return _APART if any(one is _APART for one in merged.values()) else merged
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = [_merged(one, other) for one, other in zip(before, after, strict=True)]
        return _APART if any(one is _APART for one in found) else found
    return before if before == after else _APART


def _merged_field(name: str, before: Any, after: Any) -> Any:
    if name in _JOINED and isinstance(before, str) and isinstance(after, str):
        return before + after
    if name in _LISTS and isinstance(before, list) and isinstance(after, list):
        return before + after
    if name in _NOW_AND_THEN and None in (before, after):
        return after if before is None else before
    return _merged(before, after)
