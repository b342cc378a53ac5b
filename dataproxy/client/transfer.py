"""A tenant's file out of one data proxy and into another, as streams: a piece at a time in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from dataproxy.client.calls import Call, read
from dataproxy.client.errors import Unavailable
from dataproxy.client.types import TenantImported

_PIECE = 1 << 20
_PAUSE_S = 3600.0
"""Longest wait for the answer to an import: it comes when all is stored."""


@contextmanager
def open_tenant_export(http: httpx.Client, tenant: str) -> Iterator[tuple[int, Iterator[bytes]]]:
    """(rows, about; the file's bytes) while the block lasts.

    Raises:
        DataProxyClientError: refused, lost, or cut off in the middle.
    """
    path = f"/v1/tenants/{quote(tenant, safe='')}/export"
    try:
        with http.stream("GET", path, timeout=_PAUSE_S) as response:
            if response.status_code >= 400:
                response.read()
                read(Call("GET", path, bytes), response)
            yield int(response.headers["x-headrace-count"]), response.iter_bytes(_PIECE)
    except httpx.TransportError as error:
        raise Unavailable(f"the data proxy does not answer, or broke off ({error!r}); start the export again") from error


def send_tenant(http: httpx.Client, pieces: Iterator[bytes], signed_by: str) -> TenantImported:
    """Import the file whose bytes are ``pieces``.

    Raises:
        DataProxyClientError: refused or lost; then nothing of it is stored.
    """
    call = Call("POST", "/v1/tenants/import", msgspec.json.Decoder(TenantImported).decode)
    try:
        response = http.post(call.path, content=pieces, params={"signed_by": signed_by} if signed_by else {}, timeout=_PAUSE_S)
    except httpx.TransportError as error:
        raise Unavailable(f"the data proxy does not answer, or broke off ({error!r}); import the file again") from error
    return read(call, response)


def pieces_of(path: Path, on_sent: Callable[[int], None]) -> Iterator[bytes]:
    """The bytes of ``path``, a piece at a time; ``on_sent`` is told how many are gone."""
    num_sent = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
            num_sent += len(piece)
            on_sent(num_sent)
