"""An HTTP client that hides nothing: exact bytes out, pieces in as they come, a clean end told from a cut, leaving in every way."""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

_PATIENCE_S = 300.0


class Cut(Exception):
    """The connection ended before the answer was whole."""


@dataclass(frozen=True)
class Head:
    """Status and headers of an answer, names in lower case."""

    status: int
    headers: dict[str, str]

    @property
    def event_id(self) -> str:
        """The id of the exchange."""
        return self.headers["x-headrace-event"]


class Wire:
    """One connection, for one exchange after another. ``text`` is what has come of the answer's body."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_chunked = False
        self._left = 0
        self.text = b""

    @classmethod
    async def open(cls, port: int) -> "Wire":
        """A connection to ``port`` of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def ask(self, path: str, body: Any = b"", key: str = "hr_acme", method: str = "POST", **headers: str) -> None:
        """Send a whole request; a body that is no bytes goes as JSON, names of ``headers`` with ``_`` for ``-``."""
        self.send(request(path, body, key, method, **headers))

    def send(self, raw: bytes) -> None:
        """Send exactly these bytes."""
        self._writer.write(raw)

    async def head(self) -> Head:
        """Status and headers of the next answer.

        Raises:
            Cut: there is none.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                raw = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Cut from error
        status, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._is_chunked = headers.get("transfer-encoding") == "chunked"
        self._left = int(headers.get("content-length", "0"))
        self.text = b""
        return Head(int(status.split()[1]), headers)

    async def piece(self) -> bytes:
        """The next piece of the body as it was framed, empty at the clean end.

        Raises:
            Cut: no clean end.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                data = await (self._chunk() if self._is_chunked else self._part())
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Cut from error
        self.text += data
        return data

    async def _chunk(self) -> bytes:
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await self._reader.readexactly(size)
        await self._reader.readexactly(2)
        return data

    async def _part(self) -> bytes:
        if not self._left:
            return b""
        data = await self._reader.read(min(self._left, 1 << 16))
        if not data:
            raise Cut
        self._left -= len(data)
        return data

    async def until(self, marker: bytes) -> bytes:
        """Read until ``marker`` has come; all of it so far."""
        while marker not in self.text:
            assert await self.piece(), f"the answer ended before {marker!r}: {self.text[-500:]!r}"
        return self.text

    async def rest(self) -> bytes:
        """Read to the clean end; all of it."""
        while await self.piece():
            pass
        return self.text

    async def answer(self) -> tuple[Head, bytes]:
        """A whole answer."""
        head = await self.head()
        return head, await self.rest()

    async def ended(self) -> None:
        """Wait until the other side has closed."""
        async with asyncio.timeout(_PATIENCE_S):
            while await self._reader.read(1 << 16):
                pass

    def stop_reading(self) -> None:
        """Take nothing more from the socket."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def go_on_reading(self) -> None:
        """Take from it again."""
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def leave(self) -> None:
        """Close as a program does that has had enough."""
        self._writer.close()

    def half_close(self) -> None:
        """Close the sending side alone, and go on reading."""
        self._writer.write_eof()

    def vanish(self) -> None:
        """Reset the connection, as the kernel does for a program that was killed with unread bytes."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def request(path: str, body: Any = b"", key: str = "hr_acme", method: str = "POST", **headers: str) -> bytes:
    """The bytes of a request with ``key`` as its bearer; none if it is empty."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"{method} {path} HTTP/1.1", "host: gateway", f"content-length: {len(raw)}"]
    lines += [f"{name}: {value}" for name, value in given.items()]
    lines += [f"authorization: Bearer {key}"] if key else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + raw
