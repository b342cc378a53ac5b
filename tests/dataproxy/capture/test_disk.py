"""Disks that fill up or fail under the journal: nothing is admitted that could not be ended, and nothing is pretended."""

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataproxy.capture import Journal, JournalFailed, JournalFull
from dataproxy.capture.layout import list_segments
from dataproxy.capture.reader import SegmentReader
from dataproxy.capture.sealing import generate_keypair
from tests.dataproxy.capture.halves import request_half, response_half

PRIVATE, PUBLIC = generate_keypair()
ANSWER = 32 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory], capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield directory
    subprocess.run(["umount", directory], check=True)


def stored(directory: Path) -> list[str]:
    found = [located.half for files in list_segments(directory) for located in SegmentReader(files, PRIVATE).read()]
    return [half.event_id for half in found if hasattr(half, "status")]


async def test_a_disk_that_fills_up_ends_every_answer_that_it_let_begin(small_disk: Path) -> None:
    journal = Journal.open(small_disk, PUBLIC, answer_bytes=ANSWER, min_free_bytes=64 << 10)
    ended: list[str] = []
    with pytest.raises(JournalFull):
        for number in range(1000):
            lanes = [f"{number:03d}-{lane}" for lane in range(8)]
            begun: list[str] = []
            try:
                for event_id in lanes:
                    journal.begin(request_half(event_id))
                    begun.append(event_id)
            finally:
                await asyncio.gather(*(journal.finish(response_half(event_id, body=os.urandom(ANSWER))) for event_id in begun))
                ended += begun
    assert len(ended) > 30 and journal.failure is None
    journal.close()
    assert sorted(stored(small_disk)) == sorted(ended)


async def test_a_disk_that_has_room_again_is_used_again(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    journal = Journal.open(small_disk, PUBLIC, answer_bytes=ANSWER, min_free_bytes=1 << 20)
    with pytest.raises(JournalFull):
        journal.begin(request_half("e1"))
    ballast.unlink()
    deadline = asyncio.get_running_loop().time() + 30
    while True:  # the free space is asked for again after a while
        try:
            journal.begin(request_half("e1"))
            break
        except JournalFull:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)
    await journal.finish(response_half("e1"))
    journal.close()
    assert stored(small_disk) == ["e1"]


LIMITED = """
import asyncio, json, os, resource, signal, sys
from pathlib import Path
from dataproxy.capture import Journal, JournalFailed
from tests.dataproxy.capture.halves import request_half, response_half

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = Journal.open(Path(sys.argv[1]), bytes.fromhex(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    ended, failure = [], ""
    for number in range(100):
        try:
            journal.begin(request_half(f"e{number}"))
            await journal.finish(response_half(f"e{number}", body=os.urandom(3000)))
            ended.append(f"e{number}")
        except JournalFailed as error:
            failure = failure or str(error)
    journal.close()
    print(json.dumps({"ended": ended, "failure": failure}))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_write_that_the_system_cuts_short_is_fatal_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path), PUBLIC.hex()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=True, timeout=60)
    told = json.loads(done.stdout)
    assert 10 < len(told["ended"]) < 100 and "restart" in told["failure"]
    assert stored(tmp_path)[: len(told["ended"])] == told["ended"]


async def test_an_io_error_is_fatal_and_told_even_if_the_disk_seems_well_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may have dropped the pages that it could not write, and then says that all is well."""
    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1"))
    await journal.finish(response_half("e1"))
    assert journal.failure is None

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    monkeypatch.setattr(os, "pwritev", broken)
    journal.begin(request_half("e2"))
    with pytest.raises(JournalFailed):
        await journal.finish(response_half("e2"))
    assert journal.failure is not None and "Input/output error" in journal.failure
    monkeypatch.undo()
    with pytest.raises(JournalFailed):
        journal.begin(request_half("e3"))
    journal.close()
    assert stored(tmp_path) == ["e1"]
