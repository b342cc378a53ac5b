"""``python -m tests.chaos.one_round``: the keeper's round, once, over the engines of the trainer's settings; without a gateway."""

import logging

from dataproxy.client import SyncDataProxyClient
from workers.trainer.engines import Transport
from workers.trainer.fleet import FixedFleet
from workers.trainer.keeper import Keeper
from workers.trainer.paths import TrainerPaths
from workers.trainer.settings import Settings

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    settings = Settings()  # type: ignore[call-arg]  # from the environment
    paths = TrainerPaths(settings.data_dir)
    with SyncDataProxyClient(paths.socket, settings.api_key()) as client:
        Keeper(paths, client, FixedFleet(settings.engine_urls), Transport("disk"), settings.audit_every_s).round()
