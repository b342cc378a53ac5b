"""Is a process ready? Small questions over HTTP, on a port or a Unix socket; any failure to answer is a no."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

_TIMEOUT_S = 2.0


def http_ready(url: str) -> Callable[[], Awaitable[bool]]:
    """A question that is answered yes by a 200 of ``url``."""

    async def ask() -> bool:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
            return await _is_ok(client, url)

    return ask


def socket_ready(socket_path: Path) -> Callable[[], Awaitable[bool]]:
    """A question that is answered yes by a 200 of ``/health`` on ``socket_path``."""

    async def ask() -> bool:
        transport = httpx.AsyncHTTPTransport(uds=str(socket_path))
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, transport=transport) as client:
            return await _is_ok(client, "http://dataproxy/health")

    return ask


async def _is_ok(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
