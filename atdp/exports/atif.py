"""ATIF, Harbor's Agent Trajectory Interchange Format, version 1.8 (RFC 0001 of the Harbor framework).

A trajectory of calls that resend their history becomes steps: each message once, each answer with its metrics, exact ids and
logprobs, each tool result an observation of the step that asked for it. What ATIF has no place for is in ``extra``.
"""

from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from atdp.events import Event, TokenRecord
from atdp.exports.messages import arguments_of, calls_of, likeness, name_of, text_of
from atdp.exports.types import ExportedEvent, ExportedTrajectory

SCHEMA_VERSION: Final = "ATIF-v1.8"
_SOURCES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}


def atif_trajectory(trajectory: ExportedTrajectory) -> dict[str, Any] | None:
    """``trajectory`` in ATIF; None where nothing of it is a step."""
    steps = _Steps()
    for item in trajectory.events:
        if item.event.kind == "model_call":
            steps.add_call(item)
        elif item.event.boundary != "messages":  # what came back with messages is an observation already
            steps.add_other(item.event)
    if not steps.found:
        return None
    calls = [item.event for item in trajectory.events if item.event.kind == "model_call"]
    extra: dict[str, Any] = {"rewards": [_reward(reward) for reward in trajectory.rewards]} if trajectory.rewards else {}
    extra |= {"reward": trajectory.reward} if trajectory.reward is not None else {}
    extra["atdp"] = {"tenant": trajectory.tenant, "num_branches": steps.num_branches}
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": trajectory.session_id,
        "trajectory_id": trajectory.trajectory_id,
        "agent": _agent(trajectory.agent, calls),
        "steps": steps.found,
        "final_metrics": _totals(steps.found),
        "extra": extra,
    }


class _Steps:
    """Steps in the making. ``path`` holds what each message of the conversation at hand looks like."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.num_branches = 0
        self._path: list[bytes] = []
        self._asked: dict[str, dict[str, Any]] = {}

    def add_call(self, item: ExportedEvent) -> None:
        """The messages of a call that were not there yet, then its answers."""
        event = item.event
        messages = event.o.get("messages", [])
        looks = [likeness(message) for message in messages]
        common = next(
            (i for i, (a, b) in enumerate(zip(looks, self._path, strict=False)) if a != b), min(len(looks), len(self._path))
        )
        self.num_branches += common < len(self._path)
        for message in messages[common:]:
            self._add_message(message, event)
        answers = event.a.get("messages", [])
        for choice, answer in enumerate(answers):
            self._add_answer(item, choice, answer)
        self._path = [*looks, *(likeness(answer) for answer in answers[:1])]

    def add_other(self, event: Event) -> None:
        """An event that no message tells of: a step of the system, or of the agent where it is a tool call."""
        extra = {"event_id": event.event_id, "kind": event.kind, "o": event.o, "a": event.a, "y": event.y}
        self._add({"source": "system", "message": f"[{event.kind}]", "extra": extra}, event)

    def _add_message(self, message: Any, event: Event) -> None:
        role = message.get("role") if isinstance(message, dict) else "user"
        content = message.get("content") if isinstance(message, dict) else message
        if role == "tool" and (asked := self._asked.get(str(message.get("tool_call_id")))):
            result = {"source_call_id": str(message["tool_call_id"]), "content": text_of(content)}
            asked.setdefault("observation", {"results": []})["results"].append(result)
            return
        step: dict[str, Any] = {"source": _SOURCES.get(str(role), "system"), "message": text_of(content)}
        if step["source"] == "agent":  # an answer that was not recorded here
            step |= {"is_copied_context": True} | self._calls(message, step)
        self._add(step, event)

    def _add_answer(self, item: ExportedEvent, choice: int, answer: dict[str, Any]) -> None:
        event = item.event
        step: dict[str, Any] = {"source": "agent", "message": text_of(answer.get("content")), "llm_call_count": 1}
        reasoning = event.h.get("reasoning", [])
        if choice < len(reasoning) and reasoning[choice]:
            step["reasoning_content"] = reasoning[choice]
        if isinstance(event.m.get("model"), str):
            step["model_name"] = event.m["model"]
        step |= self._calls(answer, step)
        tokens = next((record for record in item.tokens if record.choice == choice), None)
        step["metrics"] = _metrics(event, tokens, is_first=choice == 0)
        reasons = event.y.get("finish_reasons", [])
        step["extra"] = {
            "event_id": event.event_id,
            "choice": choice,
            "finish_reason": reasons[choice] if choice < len(reasons) else None,
            "training": item.decisions.get(choice, "no tokens"),
        }
        self._add(step, event)

    def _calls(self, message: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
        calls: list[dict[str, Any]] = [
            {"tool_call_id": str(call.get("id") or f"call-{i}"), "function_name": name_of(call), "arguments": arguments_of(call)}
            for i, call in enumerate(calls_of(message))
        ]
        self._asked |= {call["tool_call_id"]: step for call in calls}
        return {"tool_calls": calls} if calls else {}

    def _add(self, step: dict[str, Any], event: Event) -> None:
        at = event.ended_at if step["source"] == "agent" else event.started_at
        step |= {"step_id": len(self.found) + 1, "timestamp": datetime.fromtimestamp(at / 1e6, UTC).isoformat()}
        self.found.append(step)


def _metrics(event: Event, tokens: TokenRecord | None, is_first: bool) -> dict[str, Any]:
    """Usage counts a call once, at its first choice; exact ids and logprobs are the choice's own."""
    usage = event.m.get("usage") or {} if is_first else {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    found = {"prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens")}
    found |= {"cached_tokens": cached, "cost_usd": event.m.get("cost_usd") if is_first else None}
    if tokens is not None:
        altered = np.frombuffer(tokens.output_altered, np.uint8)
        found |= {
            "prompt_token_ids": np.frombuffer(tokens.prompt_ids, "<i4").tolist(),
            "completion_token_ids": np.frombuffer(tokens.output_ids, "<i4").tolist(),
            "logprobs": np.frombuffer(tokens.logprobs, "<f4").tolist(),
            "extra": {
                "weight_versions": np.frombuffer(tokens.versions, "<i4").tolist(),
                "masked": np.flatnonzero(altered).tolist(),
                "tokenizer": tokens.tokenizer,
            },
        }
    return {name: value for name, value in found.items() if value is not None}


def _agent(name: str, calls: list[Event]) -> dict[str, Any]:
    first = calls[0] if calls else None
    agent: dict[str, Any] = {"name": name or "unknown", "version": str(first.m.get("harness") or "unknown") if first else "unknown"}
    if first is not None and isinstance(first.m.get("model"), str):
        agent["model_name"] = first.m["model"]
    tools = next((event.o["tools"] for event in calls if isinstance(event.o.get("tools"), list)), None)
    if tools is not None and all(isinstance(tool, dict) for tool in tools):
        agent["tool_definitions"] = tools
    return agent


def _totals(steps: list[dict[str, Any]]) -> dict[str, Any]:
    sums: dict[str, Any] = {"total_steps": len(steps)}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
        values = [step["metrics"][name] for step in steps if name in step.get("metrics", {})]
        if values:
            sums[f"total_{name}"] = sum(values)
    return sums


def _reward(reward: Any) -> dict[str, Any]:
    return {
        "target": reward.target_id,
        "name": reward.name,
        "value": reward.value,
        "source": reward.source,
        "received_us": reward.received_us,
    }
