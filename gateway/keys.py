"""The key table: who may call, as which tenant. Polled from the data proxy each second and cached:
calls go on while it is down.

Keys are known by their SHA-256 only. The first table must have come before anybody is let in.
"""

import asyncio
import hashlib
import hmac
import math
import time
from dataclasses import dataclass

import msgspec

from gateway.errors import Refused

_CALLERS = frozenset(("agent", "admin"))


class KeyLimits(msgspec.Struct, frozen=True):
    """What a key may use; None: no limit. ``used_tokens`` is what the data proxy has counted against the budget so far."""

    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_tokens: int | None = None
    used_tokens: int = 0


class KeyRow(msgspec.Struct, frozen=True):
    """One row of ``GET /v1/keys/table``; ``key_hash`` is the SHA-256 (hex) of the whole key. No models: all of them."""

    key_hash: str
    key_id: str
    tenant: str
    agent: str
    role: str
    models: list[str]
    record: bool
    revoked: bool
    expires_us: int | None
    limits: KeyLimits | None = None
    unrecorded: bool = False
    pseudonymize: bool = False


@dataclass(slots=True, frozen=True)
class Identity:
    """Who calls. ``cache_salt`` keeps the tenant's prefix cache apart from others'; empty ``models`` means all.

    ``limits`` is None for a key without any.
    """

    key_id: str
    tenant: str
    agent: str
    role: str
    models: frozenset[str]
    record: bool
    expires_us: int | None
    cache_salt: bytes
    limits: KeyLimits | None = None
    unrecorded: bool = False
    """Whether the tenant is served even while its calls cannot be recorded."""
    pseudonymize: bool = False
    """Whether models see surrogates of personal values."""

    def may_use(self, model: str) -> bool:
        """Whether the key is good for ``model``."""
        return not self.models or model in self.models


class KeyTable:
    """The cached table. ``secret`` keys the cache salts."""

    def __init__(self, secret: bytes, wait_s: float) -> None:
        self._secret = secret
        self._wait_s = wait_s
        self._identities: dict[bytes, Identity] = {}
        self._loaded = asyncio.Event()
        self._last: bytes | None = None
        self.loaded_at = 0.0
        self.generation = 0
        """Counts the tables that differed: what was found in an older one must be looked up anew."""

    @property
    def loaded(self) -> bool:
        """Whether a table has come since the start."""
        return self._loaded.is_set()

    @property
    def age_s(self) -> float:
        """Seconds since the table was last confirmed; infinite before the first."""
        return time.time() - self.loaded_at if self.loaded else math.inf

    def load(self, table: bytes) -> None:
        """Replace the table by the JSON list in ``table``.

        Raises:
            msgspec.DecodeError: it is of another form; the old table stays.
        """
        if table != self._last:
            rows = msgspec.json.decode(table, type=list[KeyRow])
            self._identities = {bytes.fromhex(row.key_hash): self._identity(row) for row in rows if not row.revoked}
            self._last = table
            self.generation += 1
        self.loaded_at = time.time()
        self._loaded.set()

    def _identity(self, row: KeyRow) -> Identity:
        salt = hmac.digest(self._secret, b"cache-salt\0" + row.tenant.encode(), hashlib.sha256).hex()[:32].encode()
        models = frozenset(row.models)
        return Identity(
            *(row.key_id, row.tenant, row.agent, row.role, models, row.record, row.expires_us, salt, row.limits),
            unrecorded=row.unrecorded,
            pseudonymize=row.pseudonymize,
        )

    async def caller(self, authorization: bytes) -> Identity:
        """The holder of the bearer key in ``authorization``, who may use models.

        Raises:
            Refused: 401 missing, unknown, revoked or expired; 403 a role that does not call models; 503 no table yet.
        """
        await self.wait()
        return self.known_caller(authorization)

    async def holder(self, authorization: bytes) -> Identity:
        """The holder of the bearer key in ``authorization``, whatever the role; raises as ``caller`` does, but for 403."""
        await self.wait()
        return self.known_holder(authorization)

    def known_caller(self, authorization: bytes) -> Identity:
        """As ``caller``, by the table that is there."""
        identity = self.known_holder(authorization)
        if identity.role not in _CALLERS:
            raise Refused(403, "role_not_allowed", f"a key of role {identity.role} may not call models; use an agent's key")
        return identity

    def known_holder(self, authorization: bytes) -> Identity:
        """As ``holder``, by the table that is there."""
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not key:
            raise Refused(401, "missing_api_key", "send your key as `Authorization: Bearer hr_…`; `headrace keys` makes one")
        identity = self._identities.get(hashlib.sha256(key.strip()).digest())
        if identity is None or (identity.expires_us is not None and time.time() * 1e6 >= identity.expires_us):
            raise Refused(401, "invalid_api_key", "this API key is wrong, revoked or expired; `headrace keys` makes a new one")
        return identity

    async def wait(self) -> None:
        """Return once a table has come.

        Raises:
            Refused: 503, none comes in time.
        """
        if self._loaded.is_set():
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await self._loaded.wait()
        except TimeoutError as error:
            message = "the gateway has no key table yet: is the data proxy running? Try again shortly"
            raise Refused(503, "keys_not_loaded", message, retry_after_s=2) from error
