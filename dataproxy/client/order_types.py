"""Orders about which version serves: given by a person, kept by the data proxy, carried out by the keeper. Times: UTC µs."""

from typing import Literal

import msgspec

OrderAction = Literal["serve", "canary"]
OrderState = Literal["waiting", "begun", "done", "refused", "withdrawn"]


class OrderAsk(msgspec.Struct, frozen=True):
    """Let ``version`` serve everybody, or (``canary``) the share ``share`` of the sessions, above 0 and at most 1."""

    version: str
    action: OrderAction
    reason: str
    share: float = 1.0


class OrderStep(msgspec.Struct, frozen=True):
    """What came of an order, in words; kept."""

    said: str = ""


class VersionOrder(msgspec.Struct, frozen=True):
    """An order and how far it is; ``said`` is what its last step said, by the key ``moved_by`` at ``moved_us``."""

    order_id: str
    version: str
    action: OrderAction
    share: float
    reason: str
    key_id: str
    created_us: int
    state: OrderState
    said: str
    moved_by: str
    moved_us: int

    @property
    def is_open(self) -> bool:
        """Whether it waits to be carried out, or is being carried out."""
        return self.state in ("waiting", "begun")
