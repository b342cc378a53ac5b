"""Rows for Hugging Face ``datasets``: the ``messages`` and ``tools`` of a conversation, and the reward.

A trajectory gives a row for each answer that nothing continues, so a conversation is one row and a branch is another. Rows agree in
their types, whatever the tools of two agents take: arguments are JSON texts, as OpenAI has them, and so are ``tools``. As objects
Arrow would refuse two that differ in a type, and give each call the arguments of all others as nulls.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from atdp.events import Event
from atdp.exports.messages import arguments_of, calls_of, name_of, text_of
from atdp.exports.types import ExportedTrajectory


def chat_rows(trajectory: ExportedTrajectory) -> Iterator[dict[str, Any]]:
    """The rows of ``trajectory``."""
    calls = [item for item in trajectory.events if item.event.kind == "model_call"]
    continued = {item.event.parent_id for item in calls}
    for item in calls:
        event = item.event
        if event.event_id in continued:
            continue
        for choice, answer in enumerate(event.a.get("messages", [])):
            reasoning = event.h.get("reasoning", [])
            thought = reasoning[choice] if choice < len(reasoning) else ""
            last = chat_message(answer) | ({"reasoning_content": thought} if thought else {})
            yield {
                "trajectory_id": trajectory.trajectory_id,
                "event_id": event.event_id,
                "choice": choice,
                "session_id": trajectory.session_id,
                "agent": trajectory.agent,
                "model": _model(event),
                "messages": [*(chat_message(message) for message in event.o.get("messages", [])), last],
                "tools": msgspec.json.encode(event.o.get("tools") or []).decode(),
                "reward": trajectory.reward,
                "training": item.decisions.get(choice, "no tokens"),
            }


def for_template(row: Mapping[str, Any]) -> dict[str, Any]:
    """The ``messages`` and ``tools`` of ``row`` as chat templates take them: JSON read, and without the nulls that Arrow put in."""
    messages = [{name: value for name, value in message.items() if value is not None} for message in row["messages"]]
    for message in messages:
        if "tool_calls" in message:
            message["tool_calls"] = [{**call, "function": _read(call["function"])} for call in message["tool_calls"]]
    return {"messages": messages, "tools": msgspec.json.decode(row["tools"]) or None}


def _read(function: Mapping[str, Any]) -> dict[str, Any]:
    return {**function, "arguments": msgspec.json.decode(function["arguments"])}


def chat_message(message: Any) -> dict[str, Any]:
    """A message of a row: content a text, arguments the JSON text of an object."""
    if not isinstance(message, dict):
        return {"role": "user", "content": text_of(message)}
    plain: dict[str, Any] = {"role": str(message.get("role") or "user"), "content": text_of(message.get("content"))}
    if calls := calls_of(message):
        plain["tool_calls"] = [
            {
                "id": str(call.get("id") or ""),
                "type": "function",
                "function": {"name": name_of(call), "arguments": msgspec.json.encode(arguments_of(call)).decode()},
            }
            for call in calls
        ]
    for name in ("tool_call_id", "name"):
        if isinstance(message.get(name), str):
            plain[name] = message[name]
    return plain


def _model(event: Event) -> str:
    model = event.m.get("model")
    return model if isinstance(model, str) else ""
