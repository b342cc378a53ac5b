"""What the data proxy is made of, put together once in ``__main__`` (or by a test) and handed to the API."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from dataproxy.admit import AdmissionPolicy
from dataproxy.digests import KeyedDigests, tenant_key
from dataproxy.drain.drain import Drain, DrainKeys
from dataproxy.drain.redaction import Redactor, Redactors
from dataproxy.journal_keys import private_keys
from dataproxy.keyfiles import INTERNAL_KEYS, KeyFiles
from dataproxy.ledger.adopt import adopt
from dataproxy.ledger.checkpoints import Checkpoints
from dataproxy.ledger.notes import NoteSigner
from dataproxy.pseudonyms.desk import PseudonymDesk
from dataproxy.redact import Redactor as PatternRedactor
from dataproxy.redact import TokenBytes
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.settings import Settings
from dataproxy.store.database import Database
from dataproxy.store.keys import KeyBook, register_internal
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.redaction import current_policy

PolicyOf: TypeAlias = Callable[[str], tuple[int, RedactionPolicy]]
_POLICY_S = 2.0


def clock_us() -> int:
    """UTC µs."""
    return time.time_ns() // 1000


class TenantRedactors:
    """One redactor a tenant, made when first asked for, and anew when its policy is another. Any thread."""

    def __init__(self, secret: bytes, mask_id: int, tokens: TokenBytes | None, policy_of: PolicyOf | None = None) -> None:
        """``policy_of`` gives the number and the policy of a tenant; without it there are the built-in rules alone."""
        self._secret = secret
        self._mask_id = mask_id
        self._tokens = tokens
        self._policy_of = policy_of or (lambda tenant: (0, RedactionPolicy()))
        self._made: dict[str, tuple[int, float, Redactor]] = {}

    def of(self, tenant: str) -> Redactor:
        """The redactor under ``tenant``'s key and policy; a policy set elsewhere is noticed within seconds.

        Raises:
            InvalidPolicy: the policy cannot be used here: its models are not installed.
        """
        known, now_s = self._made.get(tenant), time.monotonic()
        if known is not None and now_s < known[1]:
            return known[2]
        number, policy = self._policy_of(tenant)
        redactor = known[2] if known is not None and known[0] == number else self.make(tenant, number, policy)
        self._made[tenant] = number, now_s + _POLICY_S, redactor
        return redactor

    def make(self, tenant: str, number: int, policy: RedactionPolicy) -> Redactor:
        """A redactor under ``policy``, for trying it out as well.

        Raises:
            InvalidPolicy: the policy cannot be used.
        """
        key = tenant_key(self._secret, tenant)
        return PatternRedactor(key, self._mask_id, self._tokens, policy=policy, number=number)

    def forget(self, tenant: str) -> None:
        """Look at the tenant's policy again at the next call."""
        self._made.pop(tenant, None)


@dataclass(slots=True, frozen=True)
class Services:
    """The parts that API handlers use. ``now_us`` is the clock; ``vault_private`` reads the key of the vault."""

    database: Database
    drain: Drain
    keys: KeyBook
    redactors: Redactors
    mac_secret: bytes
    tenant_secret: bytes
    settle_s: float
    checkpoints: Checkpoints
    data_dir: Path
    ledger_private: bytes
    vault_private: Callable[[], bytes]
    pseudonyms: PseudonymDesk
    now_us: Callable[[], int] = field(default=clock_us)

    def digests(self, tenant: str) -> KeyedDigests:
        """The keyed digests of ``tenant``."""
        return KeyedDigests(tenant_key(self.tenant_secret, tenant))

    def renew(self, tenant: str) -> None:
        """Take up ``tenant``'s redaction policy at the next call: it was set just now."""
        if isinstance(self.redactors, TenantRedactors):
            self.redactors.forget(tenant)


def policies_in(database: Database) -> PolicyOf:
    """What the tenants of ``database`` say about redaction."""

    def policy_of(tenant: str) -> tuple[int, RedactionPolicy]:
        with database.read() as connection:
            return current_policy(connection, tenant)

    return policy_of


def build_services(
    settings: Settings,
    files: KeyFiles,
    redactors: Redactors | None = None,
    now_us: Callable[[], int] = clock_us,
    database: Database | None = None,
) -> Services:
    """Open the store (unless ``database`` is it), register the machine's own keys, and make the drain ready to run.

    Raises:
        FileNotFoundError: a key file or the tokenizer is missing.
        StoreError: the store is in use, out of reach, or of a newer Headrace.
        InvalidTokenizer: the tokenizer file cannot be read.
    """
    data_dir = settings.data_dir.expanduser()
    (data_dir / "journal" / "keys").mkdir(parents=True, exist_ok=True, mode=0o700)
    tokens = TokenBytes.from_file(settings.tokenizer_path.expanduser()) if settings.tokenizer_path else None
    secret = files.tenant_secret()
    urls = PostgresUrls(settings.database_url, settings.database_owner_url) if settings.database_url is not None else None
    database = database or Database(urls or data_dir / "store" / "headrace.db")
    redactors = redactors or TenantRedactors(secret, settings.mask_id, tokens, policies_in(database))
    keys = KeyBook()
    with database.write() as connection:
        register_internal(connection, {role: files.api_key(role) for role in INTERNAL_KEYS}, now_us())
        keys.load(connection)
        adopt(connection)
    file = settings.checkpoints_path or data_dir / "ledger" / "checkpoints.jsonl"
    ledger_private = files.ledger_private()
    checkpoints = Checkpoints(database, NoteSigner(ledger_private), file.expanduser(), now_us)
    drain = Drain(
        data_dir / "journal",
        database,
        DrainKeys(private_keys(settings, files), files.quarantine_public(), secret, files),
        redactors,
        AdmissionPolicy(settings.max_altered, settings.allow_truncated),
        tokenizer=tokens.fingerprint if tokens else "",
        batch_size=settings.batch_size,
        session_idle_s=settings.session_idle_s,
        pending_days=settings.pending_days,
        now_us=now_us,
    )
    of_files = (files.mac(), secret, settings.settle_s, checkpoints, data_dir, ledger_private)
    desk = PseudonymDesk(secret, policies_in(database))
    return Services(database, drain, keys, redactors, *of_files, files.vault_private, desk, now_us)
