"""Entry point: ``python -m workers.trainer`` (one rank), ``torchrun --nproc-per-node N -m workers.trainer`` (N ranks)."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import threading

import msgspec
from pydantic import ValidationError

from dataproxy.client import DataProxyClientError, SyncDataProxyClient
from workers.trainer.coordinator import Coordinator
from workers.trainer.data_proxy import PatientDataProxy
from workers.trainer.dry_run import describe, dry_run
from workers.trainer.errors import TrainerError
from workers.trainer.gate import Gate
from workers.trainer.learner import Learner
from workers.trainer.loop import Trainer, run
from workers.trainer.metrics import Reporter
from workers.trainer.niceness import be_nice
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish import Publisher, engines_of
from workers.trainer.ranks import Ranks, end_process, start_ranks, stop_ranks
from workers.trainer.settings import Settings

logger = logging.getLogger("workers.trainer")


def main() -> int:
    """Read settings, join the ranks, train. Gives the exit status: 0 after a stop, 1 after an error, 2 for bad settings."""
    chosen = _parser().parse_args()
    try:
        settings = Settings()  # type: ignore[call-arg]  # from the environment
        unknown = unknown_variables(settings)
    except ValidationError as error:
        print(f"the trainer's settings are wrong (HEADRACE_TRAINER_*):\n{error}", file=sys.stderr)
        return 2
    if unknown:
        print(f"no such setting of the trainer: {', '.join(unknown)}", file=sys.stderr)
        return 2
    be_nice(settings.compute.nice)
    ranks = start_ranks()
    configure_logging(settings.json_logs, ranks.rank)
    logger.info("settings: %s", settings.model_dump_json())
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with SyncDataProxyClient(TrainerPaths(settings.data_dir).socket, settings.api_key(), timeout_s=60.0) as client:
            if chosen.dry_run:
                show(settings, ranks, client, chosen.forward, chosen.json)
                return 0
            trainer = build(settings, ranks, client, stop)
            with trainer.gate or contextlib.nullcontext():
                run(trainer)
            if trainer.reporter:
                trainer.reporter.close()
    except (TrainerError, DataProxyClientError) as error:
        logger.error("%s: %s", type(error).__name__, error)
        return 1
    finally:
        stop_ranks()
    return 0


def build(settings: Settings, ranks: Ranks, client: SyncDataProxyClient, stop: threading.Event) -> Trainer:
    """Put one rank together; on the first, settle what an earlier run left before any rank reads weights."""
    paths = TrainerPaths(settings.data_dir)
    coordinator, reporter, gate = None, None, None
    if ranks.is_first:
        data_proxy = PatientDataProxy(client)
        publisher = Publisher(paths, data_proxy, engines_of(settings))
        reporter = Reporter(settings, paths)
        coordinator = Coordinator(settings, paths, data_proxy, publisher, stop)
        gate = Gate(settings.compute, settings.engine_urls, paths.compute, lambda: batches_ready(client, settings), stop)
        coordinator.start()
    ranks.wait()
    learner = Learner(settings, paths, ranks)
    if gate:
        for policy in filter(None, (learner.policy, learner.reference)):
            policy.call_between_layers(gate.give_way)
    return Trainer(settings, paths, ranks, learner, coordinator, reporter, gate)


def batches_ready(client: SyncDataProxyClient, settings: Settings) -> float:
    """Trajectories that are ready, in batches; 1 where the data proxy does not say: the trainer has one in hand."""
    try:
        return client.status().places.get("ready", 0) / settings.batch_trajectories
    except DataProxyClientError:
        return 1.0


def show(settings: Settings, ranks: Ranks, client: SyncDataProxyClient, forward: bool, as_json: bool) -> None:
    """Print what the next step would do; lease nothing, change nothing."""
    plan = dry_run(settings, TrainerPaths(settings.data_dir), client, ranks, forward)
    for line in [msgspec.json.encode(plan).decode()] if as_json else describe(plan):
        print(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.trainer", description="Train; settings are HEADRACE_TRAINER_*.")
    parser.add_argument("--dry-run", action="store_true", help="print the batch that the next step would take, and take none")
    parser.add_argument("--no-forward", dest="forward", action="store_false", help="with --dry-run: do not load the model")
    parser.add_argument("--json", action="store_true", help="with --dry-run: one JSON object")
    return parser


def unknown_variables(settings: Settings) -> list[str]:
    """Variables of ours in the environment that no setting reads: a typo must not pass for a default."""
    known = {f"HEADRACE_TRAINER_{name.upper()}" for name in type(settings).model_fields}
    return sorted(name for name in os.environ if name.startswith("HEADRACE_TRAINER_") and name not in known)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Level, logger, message, and the traceback if there is one."""
        line = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        return json.dumps(line | ({"exception": self.formatException(record.exc_info)} if record.exc_info else {}))


def configure_logging(as_json: bool, rank: int) -> None:
    """Log to stderr; ranks but the first only speak up when something is wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)


if __name__ == "__main__":
    end_process(main())
