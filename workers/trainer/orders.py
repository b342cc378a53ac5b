"""Orders that people give through the console or the API: the keeper carries them out, as the publisher's own command would.

Owns what is said of an order while that happens. Not owned: who may give one (the data proxy), how a version comes to serve
(`publish`). Place in the path: step 3, before the keeper looks at the workers.
"""

from __future__ import annotations

import logging
from typing import Protocol

from dataproxy.client import BadRequest, NotFound
from dataproxy.client.order_types import VersionOrder
from workers.trainer.errors import PublishLockBusy, TrainerError
from workers.trainer.publish import Publisher

logger = logging.getLogger(__name__)


class OrderBook(Protocol):
    """The record of orders. Every method may raise DataProxyClientError."""

    def list_version_orders(self, limit: int = 50) -> list[VersionOrder]:
        """The newest first."""
        ...

    def move_version_order(self, order_id: str, step: str, said: str = "") -> VersionOrder:
        """Begin it, say that it is done or why not; BadRequest where it can't be any more."""
        ...


def carry_out(book: OrderBook, publisher: Publisher) -> None:
    """Do what the open order says, if there is one. One that a keeper had begun before it died is done again: it may be repeated.

    Raises: DataProxyClientError; the order stays open, and the next call goes on with it.
    """
    order = next((one for one in book.list_version_orders(limit=1) if one.is_open), None)
    if order is None:
        return
    try:
        book.move_version_order(order.order_id, "begin")
    except BadRequest:
        return  # withdrawn a moment ago
    logger.info("order %s: %s shall serve", order.order_id, order.version)
    try:
        if order.action == "canary":
            result = publisher.begin_canary(order.version, order.share)
        else:
            result = publisher.make_serve(order.version)
    except PublishLockBusy:
        return
    except (TrainerError, NotFound) as error:
        logger.warning("order %s came to nothing: %s", order.order_id, error)
        book.move_version_order(order.order_id, "refuse", f"{error}; what served goes on serving")
        return
    said = f"checksum {result.checksum}, paused {result.paused_s:.3f} s, {result.num_in_flight_before} calls in flight went on"
    book.move_version_order(order.order_id, "done", said)
