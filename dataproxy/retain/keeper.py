"""The housekeeping of the store while the data proxy runs, in a thread of its own: checkpoints, retention, purged files, alarms."""

import logging
import threading

from sqlalchemy.exc import OperationalError

from dataproxy.alarms.file import AlarmFile
from dataproxy.errors import Refused
from dataproxy.retain.retention import expire
from dataproxy.services import Services
from dataproxy.settings import Settings
from dataproxy.vault.shred import shred_expired

logger = logging.getLogger(__name__)
_LOOK_S = 1.0
_VAULT_US = 60_000_000


class Keeper:
    """Cuts checkpoints as the settings say and looks for what has outlived its retention or its key's time.

    At the end it cuts a last checkpoint.
    """

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._every_leaves = settings.checkpoint_leaves
        self._every_us = int(settings.checkpoint_s * 1e6)
        self._retention_us = int(settings.retention_s * 1e6)
        self._looked_us = self._shredded_us = 0
        self._alarms = AlarmFile(services)

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set. A database that is busy or full is tried again."""
        while not stop.wait(_LOOK_S):
            try:
                self.look()
            except OperationalError as error:
                logger.error("the store refused its housekeeping, trying again in %s s: %s", _LOOK_S, error.orig)

    def look(self) -> None:
        """Whatever is due now."""
        services, now_us = self._services, self._services.now_us()
        services.checkpoints.cut(self._every_leaves, self._every_us)
        services.database.purge_again()
        if now_us - self._shredded_us >= _VAULT_US:
            self._shredded_us = now_us
            if num := shred_expired(services.database, now_us):
                logger.info("%s keys of the vault are destroyed; files purged: %s", num, services.database.purge())
        if now_us - self._looked_us >= self._retention_us:
            self._looked_us = now_us
            self._expire(now_us)
        self._alarms.write()

    def close(self) -> None:
        """The last checkpoint: of everything that was stored before the process ends."""
        self._services.checkpoints.cut()

    def _expire(self, now_us: int) -> None:
        try:
            done = expire(self._services.database, now_us)
        except Refused as refusal:  # a hold came between the look and the erasure
            logger.warning("nothing expired this time: %s", refusal)
            return
        if done:
            purged = self._services.database.purge()
            num = sum(len(one.trajectories) for one in done)
            logger.info("%s trajectories outlived their retention and are erased; files purged: %s", num, purged)
