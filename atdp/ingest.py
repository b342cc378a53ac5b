"""What ``POST /v1/events`` takes and answers. Made by ``atdp.client`` and whoever else sends; read by the data proxy, and back."""

from typing import Final, Literal

import msgspec

MAX_EVENTS: Final = 1000
MAX_EVENT_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 8 << 20
"""Bounds of one batch, uncompressed. A batch over a bound is refused whole; an event over its own is refused alone."""

Fate = Literal["stored", "duplicate", "refused"]


class EventBatch(msgspec.Struct, frozen=True):
    """Events as they come, each judged by itself. ``{"events": [{…}, …]}``."""

    events: list[msgspec.Raw]


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one event. A refused one must change before it is sent again; ``field`` says where, ``reason`` why.

    ``duplicate``: an event of that id is stored already, and stays as it was first sent.
    """

    event_id: str
    status: Fate
    field: str = ""
    reason: str = ""


class Receipts(msgspec.Struct, frozen=True):
    """One receipt for each event of the batch, in its order. An event without a receipt is not stored: send it again."""

    receipts: list[Receipt]
