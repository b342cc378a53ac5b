"""API keys: only their SHA-256 is kept. This process is the only writer, so its book in memory is the truth."""

import hashlib
import threading
from collections.abc import Mapping, Set

import msgspec
from sqlalchemy import Connection, Row, Select, func, select, update

from atdp.ids import new_event_id
from dataproxy.client.types import IssuedKey, KeyInfo, KeyLimits, KeyRow, NewKey
from dataproxy.keyfiles import new_api_key
from dataproxy.store.consents import ConsentBook
from dataproxy.store.dialect import insert_new
from dataproxy.store.schema import api_key, key_usage

_LIMITS = ("max_concurrency", "requests_per_minute", "tokens_per_minute", "budget_tokens")

OPERATOR = ""
"""The tenant of internal keys: it sees all tenants."""


def hash_key(key: str) -> str:
    """SHA-256 of the whole key, hex. Keys have 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


class KeyBook:
    """Keys by hash, for authentication without a query."""

    def __init__(self) -> None:
        self._by_hash: Mapping[str, KeyInfo] = {}
        self._by_id: Mapping[str, KeyInfo] = {}
        self._lock = threading.Lock()

    def load(self, connection: Connection) -> None:
        """Read all keys; call it after each change."""
        with self._lock:
            self._by_hash = {row.key_hash: _info(row) for row in connection.execute(_with_usage())}
            self._by_id = {one.key_id: one for one in self._by_hash.values()}

    def find(self, key: str, now_us: int) -> KeyInfo | None:
        """The key's row, unless it is unknown, revoked or expired."""
        return self.find_hash(hash_key(key), now_us)

    def find_hash(self, key_hash: str, now_us: int) -> KeyInfo | None:
        """The same, of a key known by its hash."""
        info = self._by_hash.get(key_hash)
        if info is None or info.revoked_us is not None or (info.expires_us is not None and info.expires_us <= now_us):
            return None
        return info

    def holder(self, key_id: str) -> KeyInfo | None:
        """What is known of the key of that id, also once it is revoked or has expired."""
        return self._by_id.get(key_id)


def issue_key(connection: Connection, new: NewKey, now_us: int) -> IssuedKey:
    """Make a key; its text exists in the answer only."""
    key, key_id = new_api_key(), f"key-{new_event_id()}"
    _insert(connection, key, key_id, new, now_us)
    return IssuedKey(key_id, key)


def register_internal(connection: Connection, keys: Mapping[str, str], now_us: int) -> None:
    """Make the keys of the machine's own files (role → key) valid, and those that the files held before invalid."""
    hashes = [hash_key(key) for key in keys.values()]
    internal = (api_key.c.tenant == OPERATOR, api_key.c.key_id.like("internal-%"), api_key.c.revoked_us.is_(None))
    connection.execute(update(api_key).where(*internal, api_key.c.key_hash.not_in(hashes)).values(revoked_us=now_us))
    for role, key in keys.items():
        new = msgspec.convert({"tenant": OPERATOR, "agent": "", "role": role}, NewKey)
        _insert(connection, key, f"internal-{role}-{hash_key(key)[:12]}", new, now_us)


def list_keys(connection: Connection) -> list[KeyInfo]:
    """All keys, oldest first."""
    return [_info(row) for row in connection.execute(_with_usage().order_by(api_key.c.created_us, api_key.c.key_id))]


def key_table(
    connection: Connection, consents: ConsentBook, unrecorded: Set[str] = frozenset(), pseudonymized: Set[str] = frozenset()
) -> list[KeyRow]:
    """What gateways cache. ``record`` follows the consents, so withdrawing one takes effect within a poll.

    ``unrecorded`` are the tenants that are served even where they cannot be recorded; ``pseudonymized`` those whose models see
    surrogates.
    """
    return [
        KeyRow(
            key_hash=row.key_hash,
            key_id=row.key_id,
            tenant=row.tenant,
            agent=row.agent,
            role=row.role,
            models=msgspec.json.decode(row.models, type=list[str]),
            record=consents.may_record(row.tenant, row.agent),
            revoked=row.revoked_us is not None,
            expires_us=row.expires_us,
            limits=_limits_for_gateway(row),
            unrecorded=row.tenant in unrecorded,
            pseudonymize=row.tenant in pseudonymized,
        )
        for row in connection.execute(_with_usage().order_by(api_key.c.key_id))
    ]


def set_limits(connection: Connection, key_id: str, limits: KeyLimits) -> None:
    """Replace what the key may use; what it has used stays."""
    values = {name: getattr(limits, name) for name in _LIMITS}
    connection.execute(update(api_key).where(api_key.c.key_id == key_id).values(values))


def revoke_key(connection: Connection, key_id: str, now_us: int) -> bool:
    """Revoke a key for good; False if there is none."""
    found = connection.execute(select(api_key.c.key_id).where(api_key.c.key_id == key_id)).first() is not None
    where = (api_key.c.key_id == key_id, api_key.c.revoked_us.is_(None))
    connection.execute(update(api_key).where(*where).values(revoked_us=now_us))
    return found


def _insert(connection: Connection, key: str, key_id: str, new: NewKey, now_us: int) -> None:
    row = {
        "tenant": new.tenant,
        "key_id": key_id,
        "key_hash": hash_key(key),
        "agent": new.agent,
        "role": new.role,
        "models": msgspec.json.encode(new.models).decode(),
        "created_us": now_us,
        "expires_us": new.expires_us,
        "revoked_us": None,
        **{name: getattr(new.limits, name) for name in _LIMITS},
    }
    insert_new(connection, api_key, [row])


def _with_usage() -> Select[tuple[object, ...]]:
    """Keys with ``used_tokens``."""
    same = (key_usage.c.tenant == api_key.c.tenant) & (key_usage.c.key_id == api_key.c.key_id)
    used = func.coalesce(key_usage.c.num_tokens, 0).label("used_tokens")
    return select(api_key, used).select_from(api_key.outerjoin(key_usage, same))


def _limits(row: Row[tuple[object, ...]]) -> KeyLimits:
    return msgspec.convert({name: getattr(row, name) for name in (*_LIMITS, "used_tokens")}, KeyLimits)


def _limits_for_gateway(row: Row[tuple[object, ...]]) -> KeyLimits | None:
    limits = _limits(row)
    if limits.budget_tokens is None:
        limits = msgspec.structs.replace(limits, used_tokens=0)
    return None if limits == KeyLimits() else limits


def _info(row: Row[tuple[object, ...]]) -> KeyInfo:
    models = msgspec.json.decode(row.models, type=list[str])
    return KeyInfo(
        row.key_id, row.tenant, row.agent, row.role, models, row.created_us, row.expires_us, row.revoked_us, _limits(row)
    )
