"""Exports as streams: one line at a time in memory, however much there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Generic, Literal, TypeVar

import httpx
import msgspec

from atdp.exports.types import ExportedEvent, ExportedTrajectory
from dataproxy.client.calls import Call, read
from dataproxy.client.errors import ServerFailed, Unavailable

T = TypeVar("T", ExportedEvent, ExportedTrajectory)
_PAUSE_S = 120.0
"""Longest wait for the next line."""


@dataclass(slots=True, frozen=True)
class ExportQuery:
    """What to export; None: whatever it is. Times are UTC µs, of the start."""

    agent: str | None = None
    session: str | None = None
    kind: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    tokens: bool = True

    def params(self) -> dict[str, str | int]:
        """As the API takes it."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(slots=True, frozen=True)
class Export(Generic[T]):
    """``num`` items about, and the items."""

    num: int
    items: Iterator[T]


@contextmanager
def open_export(
    http: httpx.Client, what: Literal["events", "trajectories"], type_: type[T], query: ExportQuery
) -> Iterator[Export[T]]:
    """The export while the block lasts.

    Raises:
        DataProxyClientError: refused, lost, or cut off in the middle.
    """
    path = f"/v1/export/{what}"
    try:
        with http.stream("GET", path, params=query.params(), timeout=_PAUSE_S) as response:
            if response.status_code >= 400:
                response.read()
                read(Call("GET", path, bytes), response)
            yield Export(int(response.headers["x-headrace-count"]), _items(response, type_))
    except httpx.TransportError as error:
        raise Unavailable(f"the data proxy does not answer, or broke off ({error!r}); start the export again") from error


def _items(response: httpx.Response, type_: type[T]) -> Iterator[T]:
    decode = msgspec.json.Decoder(type_).decode
    rest = b""
    for data in response.iter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield decode(line)
    if rest:
        raise ServerFailed("the data proxy broke off in the middle of a line; its log says why", response.status_code)
