"""The job that keeps the ledger's checkpoints coming while the data proxy runs, in a thread of its own."""

import logging
import threading

from sqlalchemy.exc import OperationalError

from dataproxy.ledger.checkpoints import Checkpoints

logger = logging.getLogger(__name__)
_LOOK_S = 1.0


class Keeper:
    """Cuts a checkpoint of each log after ``every_leaves`` new leaves or ``every_s`` seconds, and a last one at the end."""

    def __init__(self, checkpoints: Checkpoints, every_leaves: int, every_s: float) -> None:
        self._checkpoints = checkpoints
        self._every_leaves = every_leaves
        self._every_us = int(every_s * 1e6)

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set. A database that is busy or full is tried again."""
        while not stop.wait(_LOOK_S):
            try:
                self._checkpoints.cut(self._every_leaves, self._every_us)
            except OperationalError as error:
                logger.error("the store refused a checkpoint, trying again in %s s: %s", _LOOK_S, error.orig)

    def close(self) -> None:
        """The last checkpoint: of everything that was stored before the process ends."""
        self._checkpoints.cut()
