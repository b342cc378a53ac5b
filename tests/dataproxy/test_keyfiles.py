"""The key files: made once, private, and the pair belongs together."""

from pathlib import Path

from dataproxy.capture.sealing import seal, unseal
from dataproxy.keyfiles import INTERNAL_KEYS, ensure


def test_what_is_missing_is_made_and_what_is_there_stays(tmp_path: Path) -> None:
    files = ensure(tmp_path / "config")
    before = {path.name: path.read_text() for path in files.directory.iterdir()}
    (files.directory / "trainer.key").unlink()
    ensure(tmp_path / "config")
    after = {path.name: path.read_text() for path in files.directory.iterdir()}
    assert after.pop("trainer.key") != before.pop("trainer.key") and after == before
    assert len({files.api_key(role) for role in INTERNAL_KEYS}) == 3 and len(files.mac()) == 32 == len(files.tenant_secret())


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    files = ensure(tmp_path / "config")
    assert files.directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files.directory.iterdir()} == {0o600}


def test_the_private_key_opens_what_the_public_one_sealed(tmp_path: Path) -> None:
    files = ensure(tmp_path / "config")
    assert unseal(files.journal_private(), seal(files.journal_public(), b"x", b"c"), b"c") == b"x"
