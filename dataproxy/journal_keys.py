"""The private keys that open the journal: where they come from, how the pair is rotated, when an old one is destroyed.

Files in the configuration directory by default; the environment or a command that asks a key service instead. A rotation writes a
new pair; gateways seal their next segment to it. The old private key stays beside it until no segment needs it any more.
"""

import logging
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from dataproxy.capture.errors import KeyUnusable
from dataproxy.capture.layout import shred
from dataproxy.capture.sealing import generate_keypair, public_of, unseal
from dataproxy.errors import Refused
from dataproxy.keyfiles import KeyFiles, write_secret
from dataproxy.settings import Settings

logger = logging.getLogger(__name__)

PrivateKeys = Callable[[], list[bytes]]
"""The keys to try, the current one first; asked again for every new segment, so that a rotation needs no restart."""

_LEAST_AGE_S = 60.0
"""A gateway may have read the old public key a moment before the rotation and be about to write a segment's key file."""
_COMMAND_S = 30.0


def private_keys(settings: Settings, files: KeyFiles) -> PrivateKeys:
    """Where ``settings`` say that the keys are.

    Raises:
        FileNotFoundError: there is no key file. Refused: a key is no key, or the command fails.
    """
    if settings.journal_key_command:
        command = settings.journal_key_command
        keys: PrivateKeys = lambda: _parsed(_answer(command))  # noqa: E731  # one of three ways, all of one form
    elif settings.journal_key is not None:
        given = settings.journal_key.get_secret_value()
        keys = lambda: _parsed(given)  # noqa: E731
    else:
        keys = files.journal_privates
    if not keys():
        raise Refused("no private key of the journal was given")
    return keys


def rotate(files: KeyFiles) -> str:
    """Write a new pair and keep the old private key beside it; gives the new public key, hex.

    In an order in which a crash at any moment leaves every segment readable: the old key is copied, the new private one is there
    before anybody can seal to it.

    Raises:
        OSError: the directory cannot be written.
    """
    old = files.journal_privates()[0]
    private, public = generate_keypair()
    write_secret(_retiring(files, public_of(old)), old.hex())
    write_secret(files.directory / "journal.key", private.hex())
    write_secret(files.directory / "journal.pub", public.hex())
    return public.hex()


def destroy_unneeded(files: KeyFiles, journal: Path, now_s: float | None = None) -> list[str]:
    """Destroy old private keys that open nothing in ``journal``; gives the names of their files.

    Keys that came from elsewhere are somebody else's to destroy.
    """
    destroyed: list[str] = []
    if not (retiring := files.retiring()):
        return destroyed
    current = {files.journal_public(), public_of(files.journal_privates()[0])}
    for path, private in retiring:
        age_s = (now_s if now_s is not None else time.time()) - path.stat().st_mtime
        if private and (public_of(private) in current or age_s < _LEAST_AGE_S or _opens_any(private, journal)):
            continue
        shred(path)
        destroyed.append(path.name)
        logger.info("the journal's old private key %s opens nothing any more and is destroyed", path.name)
    return destroyed


def _retiring(files: KeyFiles, public: bytes) -> Path:
    return files.directory / f"journal-{public.hex()[:16]}.key"


def _opens_any(private: bytes, journal: Path) -> bool:
    return any(_opens(private, path) for folder in ("keys", "damaged") for path in (journal / folder).glob("*.key"))


def _opens(private: bytes, key: Path) -> bool:
    try:
        unseal(private, key.read_bytes(), key.stem.encode())
    except (KeyUnusable, FileNotFoundError):
        return False
    return True


def _answer(command: str) -> str:
    try:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=_COMMAND_S, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        raise Refused(f"the command for the journal's private keys failed ({type(error).__name__}); run it by hand") from None
    return done.stdout


def _parsed(text: str) -> list[bytes]:
    try:
        keys = [bytes.fromhex(word) for word in text.split()]
    except ValueError:
        keys = []
    if not keys or any(len(key) != 32 for key in keys):
        raise Refused("the journal's private keys must be 64 hex digits each, the current one first, white space between them")
    return keys
