"""Errors of the process of external models.

ExternalError
├── InvalidCatalog   the file of models cannot be used
└── ProviderFailed   the provider, or litellm on the way to it, said no; ``refused`` is what the agent is told
"""

from gateway.errors import Refused


class ExternalError(Exception):
    """Root of these errors."""


class InvalidCatalog(ExternalError):
    """The file of models is missing, is no TOML, or breaks a rule; the message says which."""


class ProviderFailed(ExternalError):
    """The provider's own status and message, to be put into the form of the agent's dialect."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused
