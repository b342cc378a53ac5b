"""Errors of the ledger.

LedgerError
└── NoteInvalid    a signed checkpoint that is none
"""

from dataproxy.errors import DataProxyError


class LedgerError(DataProxyError):
    """Root."""


class NoteInvalid(LedgerError):
    """A note that is no checkpoint, or is not signed by the log's key; the message says which."""
