"""Errors of the gateway, named after the boundary that failed.

GatewayError
├── Refused             the agent's call is refused: an answer in OpenAI's form (see ``answers``)
├── ClientLeft          the agent closed its connection; nobody is left to answer
└── UpstreamError       the engine or the data proxy
    ├── UpstreamUnreachable   no connection
    ├── UpstreamLost          the connection broke, or what came is not HTTP
    └── UpstreamTimeout       first byte, idle or total time is over
"""


class GatewayError(Exception):
    """Root of the gateway's errors."""


class Refused(GatewayError):
    """A call that gets ``status`` and an error object. ``message`` says what to do next; it never quotes the body."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


class ClientLeft(GatewayError):
    """The agent's connection is gone."""


class UpstreamError(GatewayError):
    """Something behind the gateway failed."""


class UpstreamUnreachable(UpstreamError):
    """No connection could be made."""


class UpstreamLost(UpstreamError):
    """The connection broke before the answer was whole. ``answered`` tells whether a byte of it had come."""

    def __init__(self, message: str, *, answered: bool) -> None:
        super().__init__(message)
        self.answered = answered


class UpstreamTimeout(UpstreamError):
    """The upstream took longer than a limit allows; ``limit`` is the setting's name."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"the engine exceeded {limit}")
        self.limit = limit
