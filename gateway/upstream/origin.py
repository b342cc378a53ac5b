"""Where an upstream listens: a TCP address out of an ``http://`` or ``https://`` URL, or a Unix socket."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True, frozen=True, eq=False)
class Origin:
    """One upstream, known by identity. ``host`` is what goes into the Host header; ``socket`` is set for a Unix socket.

    ``certified`` is the name that its certificate must bear where it speaks TLS, else empty.
    """

    host: str
    address: str
    port: int
    socket: Path | None = None
    certified: str = ""

    @classmethod
    def parse(cls, url: str, address: str = "") -> "Origin":
        """``"http://127.0.0.1:30000"`` → its origin; ``address`` is where it lies, if that is known better than by its name.

        Raises:
            ValueError: another scheme, no host, or a path.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"{url!r} is not a base URL; expected a form such as http://127.0.0.1:30000")
        certified = parts.hostname if parts.scheme == "https" else ""
        return cls(parts.netloc, address or parts.hostname, parts.port or _PORTS[parts.scheme], certified=certified)

    @classmethod
    def unix(cls, path: Path) -> "Origin":
        """The server that listens on the Unix socket at ``path``."""
        return cls("localhost", "", 0, path)
