"""Errors of the client.

ClientError
├── BufferFull    as much waits as may: the event is not taken
├── BufferInUse   another process has the buffer open
├── Denied        the key is wrong, or may not send events: nothing goes out until it is replaced
└── NotSent       the gateway did not answer, or not usably; the events wait and are sent again
"""

from atdp.errors import AtdpError


class ClientError(AtdpError):
    """Root."""


class BufferFull(ClientError):
    """The event was not taken."""


class BufferInUse(ClientError):
    """One process a buffer."""


class Denied(ClientError):
    """401 or 403."""


class NotSent(ClientError):
    """Try again; ``after_s`` is what the gateway asks for, or None."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s
