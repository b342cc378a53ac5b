"""``python -m gateway``: read the settings, open the journal, serve until SIGTERM, then drain. Several processes if so set.

SIGTERM closes the listening socket, lets running answers end within ``drain_timeout_s``, flushes the journal, and leaves.
"""

import gc
import logging
import os
import signal
import socket
import sys

import uvicorn
from pydantic import ValidationError

from dataproxy.capture import Journal
from dataproxy.keyfiles import KeyFiles
from gateway.app import App, create_app
from gateway.logs import configure
from gateway.peers import peer_socket
from gateway.processes import leave, listen_shared, serve_many
from gateway.settings import Settings, load
from gateway.spans import Spans

log = logging.getLogger("gateway")
_KEEP_ALIVE_S = 75
_BACKLOG = 2048
_GC_THRESHOLD = 10_000
_LARGEST_BLOCK_BYTES = 4 << 20
_LAST_S = 15
"""What a process needs after its drain, at most: to record how calls ended, and to flush the journal."""


def main() -> int:
    """The exit status: 0 after a clean stop, 1 if it could not start."""
    try:
        settings = load(sys.argv[1:], os.environ)
    except (ValidationError, ValueError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    configure(settings.log_level)
    log.info("settings %s", settings.model_dump_json())
    try:
        listeners = listen(settings)
    except OSError as error:
        log.error("the gateway cannot listen on %s port %d: %s; choose another with --port", settings.host, settings.port, error)
        return 1
    log.info("listening on %s port %d", *listeners[0].getsockname()[:2])
    if len(listeners) == 1:
        return serve(settings, listeners)
    return serve_many(
        listeners, lambda index, listener: _serve_one_of_many(settings, index, listener), settings.drain_timeout_s + _LAST_S
    )


def listen(settings: Settings) -> list[socket.socket]:
    """A listening socket for each process.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.
    """
    if settings.processes > 1:
        return listen_shared(settings.host, settings.port, settings.processes, _BACKLOG)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return [socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)]


def _serve_one_of_many(settings: Settings, index: int, listener: socket.socket) -> int:
    configure(settings.log_level, process=str(index))
    return serve(settings, [listener, peer_socket(settings.data_dir.expanduser(), index)], process=str(index))


def serve(settings: Settings, listeners: list[socket.socket], process: str = "") -> int:
    """Serve on ``listeners`` until told to stop; the exit status. ``process`` is this one's number where there are several."""
    try:
        spans = Spans.from_environment(os.environ)
        app = create_app(settings, lambda: open_journal(settings))
    except (OSError, ValueError) as error:
        log.error("the gateway cannot start: %s; `headrace up` makes the key files and directories", error)
        return 1
    app.gateway.process, app.gateway.spans = process, spans
    signal.signal(signal.SIGTERM, leave)  # uvicorn raises the signal once more when it has drained
    signal.signal(signal.SIGINT, leave)
    server = uvicorn.Server(server_config(app, settings))
    spare_the_collector()
    spare_the_allocator()
    server.run(sockets=listeners)
    return 0 if server.started else 1


def spare_the_collector() -> None:
    """What the start made stays: the garbage collector need not look at it again, and seldom at all: calls leave no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 20)


def spare_the_allocator() -> None:
    """Let glibc keep freed memory, where it gave it back after each batch: it keeps twice the largest block that it saw freed."""
    bytearray(_LARGEST_BLOCK_BYTES)


def open_journal(settings: Settings) -> Journal:
    """The journal in the data directory, sealed to the data proxy's public key."""
    files = KeyFiles(settings.config_dir.expanduser())
    return Journal.open(
        settings.data_dir.expanduser() / "journal",
        files.journal_public,
        settings.journal_durability,
        max_segment_bytes=settings.journal_segment_bytes,
        max_segment_age_s=settings.journal_segment_age_s,
        min_free_bytes=settings.journal_min_free_bytes,
    )


def server_config(app: App, settings: Settings) -> uvicorn.Config:
    """uvicorn on uvloop, with our HTTP protocol; its own logs go through ours."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=app.http_protocol,  # type: ignore[arg-type]  # uvicorn asks for a class, and only calls it
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.drain_timeout_s,
    )


if __name__ == "__main__":
    sys.exit(main())
