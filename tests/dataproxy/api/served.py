"""The app of a test's data proxy on a real Unix socket, in a thread of its own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from dataproxy.api.app import create_app
from dataproxy.services import Services


@contextmanager
def serve(services: Services, path: Path) -> Iterator[Path]:
    """Listen on ``path`` until the block ends; connections queue from the first moment on."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(16)
    server = uvicorn.Server(uvicorn.Config(create_app(services), log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        server.should_exit = True
        thread.join()
