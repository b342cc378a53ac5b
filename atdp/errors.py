"""Errors of the protocol.

AtdpError
├── InvalidEvent      an event or sample breaks a rule of the protocol (unequal lengths, unknown target, …)
├── InvalidArray      a base64 array is not what its field says
└── InvalidVersion    a policy version name is not of the form ``v000007``
"""


class AtdpError(Exception):
    """Root of the protocol's errors."""


class InvalidEvent(AtdpError):
    """The event or sample breaks a rule of the protocol. ``field`` says where (``spans[0].start``); "" for the whole."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class InvalidArray(AtdpError):
    """A base64 array is not base64, or its size is no multiple of its element's."""


class InvalidVersion(AtdpError):
    """The name is not a policy version's."""
