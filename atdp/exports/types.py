"""What an export carries over the wire: made by the data proxy, read by whoever writes files."""

import msgspec

from atdp.events import Event, TokenRecord
from atdp.rewards import Reward


class ExportedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event, its exact tokens (masked), and for each choice "eligible" or the reason why it must not train."""

    event: Event
    tokens: list[TokenRecord] = []
    decisions: dict[int, str] = {}


class ExportedTrajectory(msgspec.Struct, frozen=True, omit_defaults=True):
    """A trajectory whole: its events by ``seq``, every reward that came, and the effective one; None where none came."""

    trajectory_id: str
    tenant: str
    agent: str
    session_id: str
    events: list[ExportedEvent]
    rewards: list[Reward] = []
    reward: float | None = None
