"""Errors of the client. Callers match types, never status codes.

DataProxyClientError
├── Unavailable    nobody listens on the socket, or no answer came in time: try again later
├── BadRequest     the request breaks a rule; the message says what to do
├── Denied         the key is unknown, revoked, expired, or its role may not do this
├── NotFound       no such thing for this key's tenant (another tenant's things do not exist)
└── ServerFailed   the data proxy met an error of its own
"""


class DataProxyClientError(Exception):
    """Root; ``status`` is the HTTP status (0 when there was no answer) and ``code`` the data proxy's name for it."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unavailable(DataProxyClientError):
    """No answer."""


class BadRequest(DataProxyClientError):
    """The request must change before it is sent again."""


class Denied(DataProxyClientError):
    """The key does not open this."""


class NotFound(DataProxyClientError):
    """Unknown, or another tenant's: the two look alike."""


class ServerFailed(DataProxyClientError):
    """The data proxy failed; its log says why."""


def from_status(status: int, message: str, code: str) -> DataProxyClientError:
    """The error for an HTTP status of 400 or more."""
    if status in (401, 403):
        return Denied(message, status, code)
    if status == 404:
        return NotFound(message, status, code)
    if status == 503:
        return Unavailable(message, status, code)
    return BadRequest(message, status, code) if status < 500 else ServerFailed(message, status, code)
