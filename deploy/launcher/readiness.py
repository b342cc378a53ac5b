"""Is a process ready? Small questions over HTTP, on a port or a Unix socket; any failure to answer is a no.

``verify=False`` only saves the making of a TLS context per question, which costs more than all the rest: nothing here speaks TLS.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from deploy.errors import StartFailed

_TIMEOUT_S = 2.0
_TRIES = 150
_PAUSE_S = 0.2


def http_ready(url: str) -> Callable[[], Awaitable[bool]]:
    """A question that is answered yes by a 200 of ``url``."""

    async def ask() -> bool:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=False) as client:
            return await _is_ok(client, url)

    return ask


def socket_ready(socket_path: Path) -> Callable[[], Awaitable[bool]]:
    """A question that is answered yes by a 200 of ``/health`` on ``socket_path``."""

    async def ask() -> bool:
        transport = httpx.AsyncHTTPTransport(uds=str(socket_path), verify=False)
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, transport=transport) as client:
            return await _is_ok(client, "http://dataproxy/health")

    return ask


def wait_key_works(base_url: str, key: str) -> None:
    """Return once the gateway takes ``key``: it looks for new ones each second. Blocks.

    Raises:
        StartFailed: it does not, for much longer than that.
    """
    with httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=False, headers={"authorization": f"Bearer {key}"}) as client:
        for _ in range(_TRIES):
            try:
                if client.get(f"{base_url}/v1/models").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            time.sleep(_PAUSE_S)
    raise StartFailed(f"The gateway at {base_url} does not take a new key; its log says why.")


async def may_serve(base_url: str) -> bool:
    """Whether the gateway has a worker that may serve, once it has looked and the keeper has compared weights; waits for it."""
    async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=False) as client:
        for _ in range(_TRIES):
            if await _is_ok(client, f"{base_url}/ready"):
                return True
            await asyncio.sleep(_PAUSE_S)
    return False


def workers_of(base_url: str) -> dict[str, str] | None:
    """The health of each worker of the gateway at ``base_url``: ready, waiting (it starts, or changes its weights) or down.

    None where no gateway answers.
    """
    try:
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=False) as client:
            workers: dict[str, str] = client.get(f"{base_url}/ready").json()["workers"]
            return workers
    except (httpx.HTTPError, ValueError, KeyError):
        return None


async def _is_ok(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
