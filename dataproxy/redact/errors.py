"""Errors of redaction.

RedactError
├── RedactionFailed        a record could not be redacted for certain: quarantine it, never store it in the clear
├── InvalidPolicy          what a tenant says about redaction cannot be used
└── InvalidTokenizer       a tokenizer.json is not a byte-level BPE that can be read as id → bytes

No message holds a value or a piece of the text that was redacted.
"""


class RedactError(Exception):
    """Root of redaction's errors."""


class RedactionFailed(RedactError):
    """The record goes to the quarantine: ``reason`` is one of a few short words fit for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class InvalidPolicy(RedactError):
    """A redaction policy is refused; the message is for whoever wrote it."""


class InvalidTokenizer(RedactError):
    """The tokenizer file cannot be turned into a table of bytes."""
