"""The key files of one machine, in the configuration directory, outside the data directory and its backups.

Owns their names, their making and their reading. ``headrace up`` calls ``ensure``; each process reads only the files it needs.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dataproxy.capture.sealing import generate_keypair

INTERNAL_KEYS = ("admin", "trainer", "gateway")
"""Roles whose API keys lie in ``<role>.key`` and are registered by the data proxy at its start."""


def new_api_key() -> str:
    """``hr_`` and 32 random bytes, URL-safe."""
    return f"hr_{secrets.token_urlsafe(32)}"


@dataclass(slots=True, frozen=True)
class KeyFiles:
    """Reads the keys in ``directory``. Every method raises FileNotFoundError where ``ensure`` has not run."""

    directory: Path

    def journal_private(self) -> bytes:
        """X25519 private key, 32 bytes: the data proxy only."""
        return bytes.fromhex(self._text("journal.key"))

    def journal_privates(self) -> list[bytes]:
        """The current private key, and those before it that some segment may still need."""
        return [self.journal_private(), *(private for _, private in self.retiring() if private)]

    def retiring(self) -> list[tuple[Path, bytes]]:
        """The files of the journal's earlier private keys and what is in them; nothing in one whose destruction broke off."""
        texts = [(path, path.read_text().strip("\0\n")) for path in sorted(self.directory.glob("journal-*.key"))]
        return [(path, bytes.fromhex(text)) for path, text in texts]

    def quarantine_private(self) -> bytes:
        """X25519 private key that opens quarantined exchanges, 32 bytes. It outlives the journal's."""
        return bytes.fromhex(self._text("quarantine.key"))

    def quarantine_public(self) -> bytes:
        """What the data proxy seals them to."""
        return bytes.fromhex(self._text("quarantine.pub"))

    def vault_private(self) -> bytes:
        """X25519 private key that unwraps the keys of trajectories in the vault, 32 bytes: the data proxy only."""
        return bytes.fromhex(self._text("vault.key"))

    def vault_public(self) -> bytes:
        """What they are wrapped for."""
        return bytes.fromhex(self._text("vault.pub"))

    def journal_public(self) -> bytes:
        """X25519 public key, 32 bytes: what a gateway needs to write the journal."""
        return bytes.fromhex(self._text("journal.pub"))

    def mac(self) -> bytes:
        """The secret behind completion ids, 32 bytes."""
        return bytes.fromhex(self._text("mac.key"))

    def tenant_secret(self) -> bytes:
        """The secret behind keyed digests and pseudonyms, 32 bytes."""
        return bytes.fromhex(self._text("tenant.key"))

    def ledger_private(self) -> bytes:
        """Ed25519 private key that signs checkpoints of the ledger, 32 bytes: the data proxy only."""
        return bytes.fromhex(self._text("ledger.key"))

    def ledger_public(self) -> bytes:
        """Its public key, 32 bytes: what a checkpoint is checked with."""
        return bytes.fromhex(self._text("ledger.pub"))

    def api_key(self, role: str) -> str:
        """The internal API key of ``role`` (see INTERNAL_KEYS)."""
        return self._text(f"{role}.key")

    def _text(self, name: str) -> str:
        return (self.directory / name).read_text().strip()


def ensure(config_dir: Path) -> KeyFiles:
    """Make the key files that are missing (0600, in a 0700 directory); what is there stays.

    Raises:
        OSError: the directory cannot be written.
    """
    config_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    config_dir.chmod(0o700)
    is_new = not (config_dir / "journal.key").exists()
    if not (config_dir / "quarantine.key").exists():
        _make_pair(config_dir, "quarantine", None if is_new else "journal")
    if is_new:
        _make_pair(config_dir, "journal")
    if not (config_dir / "vault.key").exists():
        _make_pair(config_dir, "vault")
    if not (config_dir / "ledger.key").exists():
        signing = Ed25519PrivateKey.generate()
        write_secret(config_dir / "ledger.pub", signing.public_key().public_bytes_raw().hex())
        write_secret(config_dir / "ledger.key", signing.private_bytes_raw().hex())
    for name in ("mac.key", "tenant.key"):
        if not (config_dir / name).exists():
            write_secret(config_dir / name, secrets.token_hex(32))
    for role in INTERNAL_KEYS:
        if not (config_dir / f"{role}.key").exists():
            write_secret(config_dir / f"{role}.key", new_api_key())
    return KeyFiles(config_dir)


def _make_pair(config_dir: Path, name: str, like: str | None = None) -> None:
    """A new X25519 pair, or the same one as ``like``: the journal's sealed the quarantine before that had one of its own."""
    private, public = (key.hex() for key in generate_keypair())
    if like is not None:
        private, public = ((config_dir / f"{like}.{end}").read_text().strip() for end in ("key", "pub"))
    write_secret(config_dir / f"{name}.pub", public)
    write_secret(config_dir / f"{name}.key", private)


def write_secret(path: Path, text: str) -> None:
    """Write a key file, 0600, whole or not at all: a half-written key would be taken for a key."""
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
