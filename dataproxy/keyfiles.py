"""The key files of one machine, in the configuration directory, outside the data directory and its backups.

Owns their names, their making and their reading. ``headrace up`` calls ``ensure``; each process reads only the files it needs.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

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

    def journal_public(self) -> bytes:
        """X25519 public key, 32 bytes: what a gateway needs to write the journal."""
        return bytes.fromhex(self._text("journal.pub"))

    def mac(self) -> bytes:
        """The secret behind completion ids, 32 bytes."""
        return bytes.fromhex(self._text("mac.key"))

    def tenant_secret(self) -> bytes:
        """The secret behind keyed digests and pseudonyms, 32 bytes."""
        return bytes.fromhex(self._text("tenant.key"))

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
    if not (config_dir / "journal.key").exists():
        private, public = generate_keypair()
        _write(config_dir / "journal.pub", public.hex())
        _write(config_dir / "journal.key", private.hex())
    for name in ("mac.key", "tenant.key"):
        if not (config_dir / name).exists():
            _write(config_dir / name, secrets.token_hex(32))
    for role in INTERNAL_KEYS:
        if not (config_dir / f"{role}.key").exists():
            _write(config_dir / f"{role}.key", new_api_key())
    return KeyFiles(config_dir)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a half-written key would be taken for a key."""
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
