"""The other gateway processes of this machine: one Unix socket each, by which the one that is asked for metrics asks the others."""

import asyncio
import socket
from pathlib import Path

from gateway.errors import UpstreamError
from gateway.state import Gateway
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.origin import Origin

OWN = "own"
"""Value of the query field ``process`` that asks for one process's own metrics."""


def _path(data_dir: Path, process: str) -> Path:
    return data_dir / "run" / f"gateway-{process}.sock"


def peer_socket(data_dir: Path, index: int) -> socket.socket:
    """The socket on which process ``index`` listens for the others. Only this user can open it.

    Raises:
        OSError: the directory cannot be written.
    """
    path = _path(data_dir, str(index))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(16)
    return listener


async def metrics_of_peers(gateway: Gateway) -> list[str]:
    """The exposition text of each other process that answers; one that is starting again is left out."""
    others = [str(i) for i in range(gateway.settings.processes) if str(i) != gateway.process]
    return [text for text in await asyncio.gather(*(_metrics_of(gateway, process) for process in others)) if text]


async def _metrics_of(gateway: Gateway, process: str) -> str:
    origin = Origin.unix(_path(gateway.settings.data_dir.expanduser(), process))
    request = Request("GET", f"/metrics?process={OWN}", [])
    try:
        answer = await fetch(gateway.pool, origin, request, gateway.settings.control_timeout_s)
    except UpstreamError:
        return ""
    return answer.body.decode() if answer.status == 200 else ""
