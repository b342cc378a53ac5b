"""The reviewer's calls that answer as they go: an audit line by line, and evidence written to a file piece by piece."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import msgspec

from dataproxy.client.calls import Call, read
from dataproxy.client.errors import ServerFailed, Unavailable
from dataproxy.client.review_types import AuditProgress, AuditReport

_PAUSE_S = 300.0
"""Longest wait for the next line or piece."""


def stream_audit(http: httpx.Client, witnesses: Sequence[str] = ()) -> Iterator[AuditProgress | AuditReport]:
    """Progress, and the report last. ``witnesses`` are verifier keys.

    Raises:
        DataProxyClientError: refused, lost, or broken off before the report.
    """
    path, decode = "/v1/audit/verify", msgspec.json.Decoder(AuditProgress | AuditReport).decode
    step: AuditProgress | AuditReport | None = None
    try:
        with http.stream("GET", path, params={"witness": list(witnesses)}, timeout=_PAUSE_S) as response:
            _check(response, path)
            for line in response.iter_lines():
                step = decode(line)
                yield step
    except httpx.TransportError as error:
        raise Unavailable(f"the data proxy does not answer, or broke off ({error!r}); start the audit again") from error
    if not isinstance(step, AuditReport):
        raise ServerFailed("the data proxy broke the audit off before its report; its log says why", 500)


def save_evidence(http: httpx.Client, params: dict[str, str | int], file: Path) -> None:
    """Write the bundle to ``file``.

    Raises:
        DataProxyClientError: refused or lost.
        OSError: the file cannot be written.
    """
    path = "/v1/audit/export"
    try:
        with http.stream("GET", path, params=params, timeout=_PAUSE_S) as response:
            _check(response, path)
            with file.open("wb") as target:
                for piece in response.iter_bytes():
                    target.write(piece)
    except httpx.TransportError as error:
        raise Unavailable(f"the data proxy does not answer, or broke off ({error!r}); start the export again") from error


def _check(response: httpx.Response, path: str) -> None:
    if response.status_code >= 400:
        response.read()
        read(Call("GET", path, bytes), response)
