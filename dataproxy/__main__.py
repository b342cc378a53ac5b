"""``python -m dataproxy``: the drain in a thread, the API on the Unix socket, until SIGTERM or SIGINT.

On the way out the journal is drained once more. If the drain dies, so does the process: a supervisor starts it again.
"""

import logging
import os
import socket
import sys
import threading
from pathlib import Path

import msgspec
import uvicorn

from dataproxy.api.app import create_app
from dataproxy.drain.drain import Drain
from dataproxy.errors import DataProxyError
from dataproxy.keyfiles import KeyFiles
from dataproxy.redact import RedactError
from dataproxy.services import build_services
from dataproxy.settings import Settings, check_environment

logger = logging.getLogger("dataproxy")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object a line; a traceback's frames only, for its message may quote what was being handled."""
        line = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        return msgspec.json.encode(line).decode()


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
    listener = _listen(settings.data_dir.expanduser() / "run" / "dataproxy.sock")
    config = uvicorn.Config(create_app(services), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    drainer = _Drainer(services.drain, server)
    drainer.start()
    server.run(sockets=[listener])
    drainer.stop()
    services.database.close()
    return 1 if drainer.failed else 0


class _Drainer(threading.Thread):
    """The drain's thread; its death ends the server."""

    def __init__(self, drain: Drain, server: uvicorn.Server) -> None:
        super().__init__(name="drain")
        self.failed = True
        self._drain = drain
        self._server = server
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            self._drain.run(self._stopping)
            while self._drain.run_once():
                pass
            self.failed = False
        finally:
            self._server.should_exit = True

    def stop(self) -> None:
        """Drain what is there, then end."""
        self._stopping.set()
        self.join()


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
    sys.exit(main())
