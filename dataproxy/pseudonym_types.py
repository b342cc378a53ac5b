"""What a gateway asks about a request of a tenant that wants pseudonyms, and what it gets. msgpack; it never leaves the socket.

Imports nothing but msgspec, for the gateway takes it too: ``dataproxy.client`` would bring httpx along.
"""

import msgspec


class ToPseudonymize(msgspec.Struct, frozen=True):
    """A request's body, as it came, and the session in which its values keep their surrogates."""

    tenant: str
    session_id: str
    body: bytes


class Form(msgspec.Struct, frozen=True, array_like=True):
    """One spelling of a surrogate, and the value in the same spelling. ``word``: only where no letter or digit is beside it."""

    surrogate: str
    value: str
    word: bool


class Pseudonymized(msgspec.Struct, frozen=True):
    """The body for the model; without ``forms`` it is the one that was given."""

    body: bytes
    forms: list[Form]
