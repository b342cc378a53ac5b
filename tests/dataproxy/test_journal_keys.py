"""Rotation of the journal's keys: nothing unreadable at any moment, nothing old left once it is not needed."""

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dataproxy.capture.errors import KeyUnusable
from dataproxy.capture.layout import list_segments
from dataproxy.capture.reader import SegmentReader
from dataproxy.errors import Refused
from dataproxy.journal_keys import destroy_unneeded, private_keys, rotate
from dataproxy.keyfiles import ensure
from dataproxy.settings import Settings
from dataproxy.store.schema import event
from deploy.cli import app
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Proxy


def later() -> float:
    return time.time() + 3600


async def test_segments_of_the_old_and_of_the_new_key_are_drained_without_a_restart_and_the_old_key_goes(proxy: Proxy) -> None:
    old = proxy.files.journal_private()
    first = proxy.journal()
    await write(first, exchange([user("before")]))
    rotate(proxy.files)
    await write(first, exchange([user("still in the old segment")]))
    assert proxy.drain() == 2
    assert destroy_unneeded(proxy.files, proxy.data_dir / "journal", later()) == []  # the old segment is still being written
    second = proxy.journal()
    await write(second, exchange([user("after")]))
    (_, newer) = list_segments(proxy.data_dir / "journal")
    with pytest.raises(KeyUnusable):
        SegmentReader(newer, old)
    first.close()
    assert proxy.drain() == 1
    assert proxy.count(event) == 3
    (gone,) = destroy_unneeded(proxy.files, proxy.data_dir / "journal", later())
    assert not (proxy.files.directory / gone).exists()
    assert proxy.files.journal_privates() == [proxy.files.journal_private()] != [old]
    second.close()
    proxy.drain()


async def test_a_writer_takes_the_new_key_with_its_next_segment(proxy: Proxy) -> None:
    from dataproxy.capture import Journal

    old = proxy.files.journal_private()
    journal = Journal.open(proxy.data_dir / "journal", proxy.files.journal_public, max_segment_bytes=4096)
    rotate(proxy.files)
    while len(list_segments(proxy.data_dir / "journal")) < 2:
        await write(journal, exchange([user("x" * 5000)]))
    first, second = list_segments(proxy.data_dir / "journal")[:2]
    SegmentReader(first, old)
    with pytest.raises(KeyUnusable):
        SegmentReader(second, old)
    journal.close()
    assert proxy.drain() >= 1


def test_a_fresh_old_key_stays_for_a_gateway_that_has_just_read_its_public_half(tmp_path: Path) -> None:
    files = ensure(tmp_path)
    rotate(files)
    assert destroy_unneeded(files, tmp_path / "journal") == []
    assert len(destroy_unneeded(files, tmp_path / "journal", later())) == 1


@pytest.mark.parametrize("writes", [1, 2])
def test_a_rotation_that_broke_off_leaves_the_key_in_use(tmp_path: Path, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataproxy import journal_keys

    files = ensure(tmp_path)
    done = []

    def broken(path: Path, text: str) -> None:
        if len(done) == writes:
            raise OSError("power is gone")
        done.append(path)
        write_secret(path, text)

    write_secret = journal_keys.write_secret
    monkeypatch.setattr(journal_keys, "write_secret", broken)
    with pytest.raises(OSError, match="power"):
        rotate(files)
    destroy_unneeded(files, tmp_path / "journal", later())
    assert files.journal_public() in {journal_keys.public_of(key) for key in files.journal_privates()}


def test_a_destruction_that_broke_off_is_ended_the_next_time(tmp_path: Path) -> None:
    files = ensure(tmp_path)
    rotate(files)
    ((path, _),) = files.retiring()
    path.write_bytes(bytes(65))
    assert len(files.journal_privates()) == 1
    assert destroy_unneeded(files, tmp_path / "journal") == [path.name]


def test_without_key_files_there_is_nothing_to_destroy(tmp_path: Path) -> None:
    files = ensure(tmp_path)
    (tmp_path / "journal.key").unlink()
    assert destroy_unneeded(files, tmp_path / "journal") == []


def test_keys_come_from_the_environment_or_a_command_where_they_are_set(tmp_path: Path) -> None:
    files = ensure(tmp_path)
    assert private_keys(Settings(), files)() == [files.journal_private()]
    assert private_keys(Settings(journal_key="11" * 32 + " " + "22" * 32), files)() == [b"\x11" * 32, b"\x22" * 32]
    command = f"cat {tmp_path}/journal.key"
    assert private_keys(Settings(journal_key="11" * 32, journal_key_command=command), files)() == [files.journal_private()]
    for broken in ({"journal_key": "word"}, {"journal_key_command": "exit 3"}, {"journal_key": "11"}):
        with pytest.raises(Refused, match="journal's private keys"):
            private_keys(Settings(**broken), files)


def test_the_quarantine_has_a_pair_of_its_own_unless_the_journals_sealed_it(tmp_path: Path) -> None:
    files = ensure(tmp_path / "new")
    assert files.quarantine_private() != files.journal_private()
    for path in files.directory.glob("quarantine.*"):
        path.unlink()
    ensure(tmp_path / "new")
    assert (files.quarantine_private(), files.quarantine_public()) == (files.journal_private(), files.journal_public())


def test_the_command_rotates_and_says_what_is_missing(tmp_path: Path) -> None:
    files = ensure(tmp_path)
    before = files.journal_private()
    done = CliRunner().invoke(app, ["keys", "rotate-journal", "--config-dir", str(tmp_path), "--json"])
    assert done.exit_code == 0 and files.journal_public().hex() in done.stdout
    assert files.journal_privates()[0] != before and before in files.journal_privates()
    empty = CliRunner().invoke(app, ["keys", "rotate-journal", "--config-dir", str(tmp_path / "nowhere")])
    assert empty.exit_code != 0 and "journal.key" in str(empty.exception)
