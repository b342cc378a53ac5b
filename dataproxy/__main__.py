"""``python -m dataproxy``: drain, rewards and keeper in threads, the API on the Unix socket, until SIGTERM or SIGINT.

On the way out the journal is drained once more and a last checkpoint is cut. If the drain dies, so does the process: a supervisor
starts it again.
"""

import argparse
import gc
import logging
import os
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvicorn

from dataproxy.api.app import create_app
from dataproxy.drain.drain import Drain
from dataproxy.errors import DataProxyError
from dataproxy.keyfiles import KeyFiles
from dataproxy.redact import RedactError
from dataproxy.retain.keeper import Keeper
from dataproxy.rewards.worker import RewardWorker
from dataproxy.services import build_services
from dataproxy.settings import PREFIX, Settings, check_environment

logger = logging.getLogger("dataproxy")
_GC_THRESHOLD = 50_000


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object a line; a traceback's frames only, for its message may quote what was being handled."""
        line = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        return msgspec.json.encode(line).decode()


def _parser() -> argparse.ArgumentParser:
    """No argument but --help, which lists what the environment may set."""
    settings = "\n\n".join(
        f"{PREFIX}{name.upper()}\n{textwrap.indent(textwrap.fill(field.description or '', 100), '    ')}"
        for name, field in Settings.model_fields.items()
    )
    return argparse.ArgumentParser(
        prog="python -m dataproxy",
        description="Drain the journal, keep the store, and answer on run/dataproxy.sock in the data directory. `headrace up` "
        "starts it; by itself, beside a copy of a data directory and of its keys, it lets commands and console look into that.",
        epilog=f"settings, from the environment:\n\n{settings}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def main() -> int:
    """Run until told to stop; 1 if it could not start or the drain died."""
    try:
        check_environment(dict(os.environ))
        settings = Settings()
        _configure_logging(settings.log_json)
        logger.info("settings: %s", settings.model_dump_json())
        services = build_services(settings, KeyFiles(settings.config_dir.expanduser()))
    except FileNotFoundError as error:
        print(f"dataproxy: {error.filename} is missing; `headrace up` makes the key files", file=sys.stderr)
        return 1
    except (DataProxyError, RedactError, ValueError) as error:
        print(f"dataproxy: {error}", file=sys.stderr)
        return 1
    spare_the_collector()
    listener = _listen(settings.data_dir.expanduser() / "run" / "dataproxy.sock")
    server = uvicorn.Server(uvicorn.Config(create_app(services), log_config=None, access_log=False, lifespan="off"))
    stop, stop_drain = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    api = _Worker("api", lambda: server.run(sockets=[listener]), stop)
    drain = _Worker("drain", lambda: _drain(services.drain, stop_drain), stop)
    keeper = Keeper(services, settings)
    keeping = _Worker("keeper", lambda: keeper.run(stop), stop)
    rewards = RewardWorker(services.database, services.now_us)
    rewarding = _Worker("rewards", lambda: rewards.run(stop), stop)
    stop.wait()
    server.should_exit = True
    stop_drain.set()
    for worker in (api, drain, keeping, rewarding):
        worker.join()
    keeper.close()
    services.database.close()
    return 1 if any(worker.failed for worker in (api, drain, keeping, rewarding)) else 0


def spare_the_collector() -> None:
    """What the start made stays: the garbage collector need not look at it again, and at what a batch is made of but seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 20)


def _drain(drain: Drain, stop: threading.Event) -> None:
    drain.run(stop)
    while drain.run_once():
        pass


class _Worker(threading.Thread):
    """One of the process's jobs; when it ends, so does the process."""

    def __init__(self, name: str, job: Callable[[], None], stop: threading.Event) -> None:
        super().__init__(name=name)
        self.failed = True
        self._job = job
        self._stop_all = stop
        self.start()

    def run(self) -> None:
        try:
            self._job()
            self.failed = False
        finally:
            self._stop_all.set()


def _listen(path: Path) -> socket.socket:
    """A socket only its owner can open. The store's lock says that nobody else uses an old one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


def _configure_logging(as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    _parser().parse_args()
    sys.exit(main())
