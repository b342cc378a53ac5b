"""Errors of the data proxy, beside those of capture, redaction and its client, which stand alone.

DataProxyError
├── StoreError
│   ├── SchemaMismatch     the database is of a newer Headrace
│   ├── StoreLocked        another process holds the database
│   ├── StoreUnreachable   the database server does not answer
│   └── StoreMisconfigured its URL, version or role will not do
├── NotFound               no such thing in this tenant
├── Refused                the request breaks a rule; the message says what to do
├── NotAllowed             the key's role may not do this
├── Unauthenticated        no key, or one that is unknown, revoked or expired
└── Unprocessable          an exchange cannot be turned into an event: quarantine it
"""


class DataProxyError(Exception):
    """Root of the data proxy's errors."""


class StoreError(DataProxyError):
    """The database cannot be used."""


class SchemaMismatch(StoreError):
    """The database was made by a newer Headrace."""


class StoreLocked(StoreError):
    """Another data proxy has the database open."""


class StoreUnreachable(StoreError):
    """The database server does not answer."""


class StoreMisconfigured(StoreError):
    """The URL, the server's version or the role will not do; the message says what to change."""


class NotFound(DataProxyError):
    """Unknown in this tenant. Another tenant's things look the same."""


class Refused(DataProxyError):
    """The request must change; the message says how."""


class NotAllowed(DataProxyError):
    """The role may not do this."""


class Unauthenticated(DataProxyError):
    """No valid key."""


class Unprocessable(DataProxyError):
    """``reason`` is a short word fit for counting; it never holds a piece of the exchange."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
