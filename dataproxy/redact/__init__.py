"""Redaction: takes personal values and secrets out of text and out of token ids before anything is stored.

Owns the rules, the walk over JSON, the masking of token ids and the byte search of data at rest. Not owned: quarantine and
admission (`dataproxy.admit`), storage. Place in the path: between the drain and the store. Every doubt raises
`RedactionFailed`; nothing goes on in the clear.
"""

from dataproxy.redact.errors import InvalidPolicy, InvalidTokenizer, RedactError, RedactionFailed
from dataproxy.redact.exchange import Exchange, RedactedExchange, RedactedText
from dataproxy.redact.redactor import Redactor
from dataproxy.redact.tokens import TokenBytes

__all__ = [
    "Exchange",
    "InvalidPolicy",
    "InvalidTokenizer",
    "RedactError",
    "RedactedExchange",
    "RedactedText",
    "RedactionFailed",
    "Redactor",
    "TokenBytes",
]
