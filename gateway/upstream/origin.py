"""Where an upstream listens: a TCP address out of an ``http://`` URL, or a Unix socket."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(slots=True, frozen=True, eq=False)
class Origin:
    """One upstream, known by identity. ``host`` is what goes into the Host header; ``socket`` is set for a Unix socket."""

    host: str
    address: str
    port: int
    socket: Path | None = None

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """``"http://127.0.0.1:30000"`` → its origin.

        Raises:
            ValueError: another scheme, no host, or a path.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"{url!r} is not a base URL; expected a form such as http://127.0.0.1:30000")
        return cls(parts.netloc, parts.hostname, parts.port or 80)

    @classmethod
    def unix(cls, path: Path) -> "Origin":
        """The server that listens on the Unix socket at ``path``."""
        return cls("localhost", "", 0, path)
