"""The redactors that the drain uses, one a tenant. The interface is ``dataproxy.redact``'s; its types are used as they are."""

from typing import Protocol

from dataproxy.redact import Exchange, RedactedExchange, RedactedText


class Redactor(Protocol):
    """Takes personal values out of an exchange. Raises RedactionFailed where it is not certain."""

    def redact_exchange(self, exchange: Exchange) -> RedactedExchange:
        """The exchange with surrogates and masked ids."""

    def redact_text(self, text: str) -> RedactedText:
        """A free text with surrogates."""


class Redactors(Protocol):
    """One redactor a tenant, made when first asked for."""

    def of(self, tenant: str) -> Redactor:
        """The redactor under ``tenant``'s key."""
