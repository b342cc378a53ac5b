"""A late reward as the event that it is: made of what was received, and read back for the reward's effect."""

from typing import Any

import msgspec

from atdp.events import Event
from atdp.rewards import Reward


def reward_event(entry: dict[str, Any], received_us: int, tenant: str, agent: str, session_id: str, trajectory_id: str) -> Event:
    """The event of ``entry``: ``reward_id``, ``target``, ``target_kind``, ``name``, ``source``, and what else was said."""
    said = {name: value for name, value in entry.items() if value is not None}
    return Event(
        event_id=entry["reward_id"],
        tenant=tenant,
        agent=agent,
        session_id=session_id,
        trajectory_id=trajectory_id,
        kind="reward",
        started_at=received_us,
        ended_at=received_us,
        boundary="api",
        r=[said],
    )


def late_rewards(event: Event) -> list[Reward]:
    """The rewards with a value of an event of kind reward, for ``atdp.rewards.effective_reward``; none of any other event.

    Raises:
        msgspec.ValidationError: one does not say what it rewards.
    """
    if event.kind != "reward":
        return []
    known = {"reward_id": event.event_id, "target_kind": "event"}
    received = {"tenant": event.tenant, "received_us": event.started_at}
    entries = [{**known, **entry, **received, "target_id": entry.get("target")} for entry in event.r]
    return [msgspec.convert(entry, Reward) for entry in entries if entry.get("value") is not None]
