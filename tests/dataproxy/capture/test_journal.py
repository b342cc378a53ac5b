"""The journal: what it acknowledges can be read back, whatever happens to the process or the disk."""

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataproxy.capture import Journal, JournalFailed, JournalFull, ResponseHalf, SegmentDamaged
from dataproxy.capture.errors import KeyUnusable
from dataproxy.capture.layout import MAGIC, SegmentFiles, is_locked, list_segments, shred
from dataproxy.capture.reader import Located, SegmentReader
from dataproxy.capture.records import encode_halves
from dataproxy.capture.sealing import generate_keypair, seal, unseal
from dataproxy.capture.segment import Segment
from tests.dataproxy.capture.halves import request_half, response_half

PRIVATE, PUBLIC = generate_keypair()


def read_all(directory: Path) -> list[Located]:
    return [located for files in list_segments(directory) for located in SegmentReader(files, PRIVATE).read()]


async def test_both_halves_come_back_as_they_were(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    request = request_half("e1", tenant="akmé", body=b"\x00\xff raw")
    response = response_half("e1", body=b"data: x\r\n\r\n", record=b'{"v":1}')
    journal.begin(request)
    await journal.finish(response)
    assert [located.half for located in read_all(tmp_path)] == [request, response]
    assert {located.tenant for located in read_all(tmp_path)} == {"akmé"}
    journal.close()


async def test_exchanges_of_two_tenants_that_go_together_keep_their_tenants(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    tenants = {f"e{number}": ("acme", "globex")[number % 2] for number in range(6)}
    for event_id, tenant in tenants.items():
        journal.begin(request_half(event_id, tenant=tenant))
    await asyncio.gather(*(journal.finish(response_half(event_id)) for event_id in tenants))
    journal.close()
    found = read_all(tmp_path)
    assert [tenants[located.half.event_id] for located in found] == [located.tenant for located in found]
    assert sorted(located.half.event_id for located in found) == sorted([*tenants, *tenants])


async def test_reading_goes_on_from_the_end_of_any_record(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    for number in range(3):
        journal.begin(request_half(f"e{number}"))
    await asyncio.gather(*(journal.finish(response_half(f"e{number}")) for number in range(3)))
    journal.close()
    reader = SegmentReader(list_segments(tmp_path)[0], PRIVATE)
    found = list(reader.read())
    assert len(found) == 6 and len({located.start for located in found}) < 6  # some share a seal
    for at, located in enumerate(found):
        rest = found[at + 1 :] if located.end > located.start else [one for one in found if one.start >= located.start]
        assert list(reader.read(located.end)) == rest


def test_a_half_that_was_sealed_alone_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    segment = Segment(tmp_path, PUBLIC, "abcd", 0)
    segment.write([segment.frame("acme", msgspec.msgpack.encode(response_half("e1")))])
    segment.close()
    assert [located.half for located in read_all(tmp_path)] == [response_half("e1")]


async def test_reading_resumes_at_an_offset_of_an_open_segment(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1"))
    await journal.finish(response_half("e1"))
    reader = SegmentReader(list_segments(tmp_path)[0], PRIVATE)
    seen = list(reader.read())[-1].end
    journal.begin(request_half("e2"))
    await journal.finish(response_half("e2"))
    assert [located.half.event_id for located in reader.read(seen)] == ["e2", "e2"]
    journal.close()


async def test_concurrent_exchanges_share_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []
    real = Segment.write

    def counting(segment: Segment, frames: list[bytes], *, durably: bool = False) -> None:
        syncs.extend([len(frames)] * durably)
        real(segment, frames, durably=durably)

    monkeypatch.setattr(Segment, "write", counting)
    journal = Journal.open(tmp_path, PUBLIC)
    for number in range(200):
        journal.begin(request_half(f"e{number}"))
    await asyncio.gather(*(journal.finish(response_half(f"e{number}")) for number in range(200)))
    assert 1 <= len(syncs) < 100
    journal.close()


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_what_was_written_ahead_is_durable_with_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    calls: list[str] = []
    sync, write = os.fdatasync, os.pwritev
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (calls.append("sync"), sync(descriptor)))
    monkeypatch.setattr(os, "pwritev", lambda *given: (calls.append("durable" if given[3] else "write"), write(*given))[1])
    (tmp_path / "keys").mkdir()
    segment = Segment(tmp_path, PUBLIC, "abcd", 0)
    for _ in range(ahead):
        segment.write([segment.frame("acme", b"x")])
    segment.write([segment.frame("acme", b"y")], durably=True)
    assert calls == (["write"] * (ahead + 1) + ["sync"] if ahead else ["durable"])  # a durable write vouches for its own bytes only
    segment.close()


async def test_the_plaintext_is_not_on_the_disk_and_other_keys_do_not_open_it(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1", body=b"planted-secret-value"))
    await journal.finish(response_half("e1", body=b"planted-secret-answer"))
    journal.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"planted-secret" not in stored and b"acme" in stored
    with pytest.raises(KeyUnusable):
        SegmentReader(list_segments(tmp_path)[0], generate_keypair()[0])


async def test_segments_roll_by_size_and_only_the_newest_is_locked(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC, max_segment_bytes=2000)
    for number in range(20):
        journal.begin(request_half(f"e{number}"))
        await journal.finish(response_half(f"e{number}"))
    segments = list_segments(tmp_path)
    assert len(segments) > 3 and len({files.writer for files in segments}) == 1
    assert is_locked(segments[-1].segment)
    async with asyncio.timeout(10):
        while sum(is_locked(files.segment) for files in list_segments(tmp_path)) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    journal.close()
    assert not is_locked(segments[-1].segment)
    assert len(read_all(tmp_path)) == 40


async def test_an_io_error_fails_everybody_now_and_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1"))
    journal.begin(request_half("e2"))
    monkeypatch.setattr(os, "fdatasync", broken)
    monkeypatch.setattr(os, "pwritev", broken)
    results = await asyncio.gather(*(journal.finish(response_half(e)) for e in ("e1", "e2")), return_exceptions=True)
    assert [type(result) for result in results] == [JournalFailed, JournalFailed]
    with pytest.raises(JournalFailed, match="Input/output error"):
        journal.begin(request_half("e3"))
    journal.close()


async def test_a_full_disk_refuses_before_the_answer_starts(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    journal = Journal.open(tmp_path, PUBLIC, min_free_bytes=0, answer_bytes=free * 2 // 5)
    journal.begin(request_half("e1"))
    journal.begin(request_half("e2"))
    with pytest.raises(JournalFull):
        journal.begin(request_half("e3"))
    await journal.finish(response_half("e1"))
    journal.begin(request_half("e3"))
    journal.close()


async def test_a_relaxed_journal_writes_what_it_acknowledges_and_syncs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    pwritev = os.pwritev

    def noted(descriptor: int, buffers: list[bytes], offset: int, flags: int = 0) -> int:
        synced.append(flags & os.RWF_DSYNC)
        return pwritev(descriptor, buffers, offset, flags)

    journal = Journal.open(tmp_path, PUBLIC, "relaxed")
    monkeypatch.setattr(os, "pwritev", noted)
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append(1))
    journal.begin(request_half("e1"))
    await journal.finish(response_half("e1"))
    assert synced and not any(synced)
    assert [located.half.event_id for located in read_all(tmp_path)] == ["e1", "e1"]  # a crash of the process loses none of it
    monkeypatch.undo()
    journal.close()


async def test_a_closed_journal_refuses(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1"))
    journal.close()
    assert [located.half.event_id for located in read_all(tmp_path)] == ["e1"]
    with pytest.raises(JournalFailed, match="closed"):
        journal.begin(request_half("e2"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_loses_nothing_acknowledged_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    acknowledged = tmp_path / "acknowledged"
    command = [sys.executable, "-m", "tests.dataproxy.capture.writer", str(tmp_path / "journal"), PUBLIC.hex(), str(acknowledged)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3]) as process:
        wanted = random.Random(seed).randrange(1, 3000)
        while not acknowledged.exists() or acknowledged.stat().st_size < wanted * 14:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    known = acknowledged.read_text().split("\n")[:-1]
    stored = [located.half.event_id for located in read_all(tmp_path / "journal") if hasattr(located.half, "status")]
    assert set(known) <= set(stored) and len(stored) == len(set(stored))
    assert not any(is_locked(files.segment) for files in list_segments(tmp_path / "journal"))


def written_segment(directory: Path) -> tuple[SegmentFiles, list[ResponseHalf], list[int]]:
    """A closed segment of six answers, the answers, and the byte at which each frame ends."""
    (directory / "keys").mkdir()
    segment = Segment(directory, PUBLIC, "abcd", 0)
    halves = [response_half(f"e{i}", body=bytes(i * 40)) for i in range(6)]
    ends = []
    for half in halves:
        segment.write([segment.frame("acme", encode_halves([half]))])
        ends.append(segment.size)
    segment.close()
    return segment.files, halves, ends


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_tail_torn_anywhere_keeps_every_whole_record(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    files, _, ends = written_segment(tmp_path_factory.mktemp("torn"))
    cut = data.draw(st.integers(len(MAGIC), ends[-1]))
    os.truncate(files.segment, cut)
    found = [located.end for located in SegmentReader(files, PRIVATE).read()]
    assert found == [end for end in ends if end <= cut]


@pytest.mark.slow
@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_changed_byte_is_never_read_as_a_record(tmp_path_factory: pytest.TempPathFactory, position: int, flip: int) -> None:
    files, halves, _ = written_segment(tmp_path_factory.mktemp("damaged"))
    stored = bytearray(files.segment.read_bytes())
    at = len(MAGIC) + position % (len(stored) - len(MAGIC))
    stored[at] ^= flip
    files.segment.write_bytes(stored)
    found = []
    with suppress(SegmentDamaged):
        for located in SegmentReader(files, PRIVATE).read():
            found.append(located.half)
    assert found == halves[: len(found)] and len(found) < 6


async def test_a_shredded_key_makes_the_segment_unreadable(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, PUBLIC)
    journal.begin(request_half("e1"))
    await journal.finish(response_half("e1"))
    journal.close()
    files = list_segments(tmp_path)[0]
    shred(files.key)
    with pytest.raises(KeyUnusable):
        SegmentReader(files, PRIVATE)


def test_a_sealed_text_opens_only_with_its_key_and_context() -> None:
    sealed = seal(PUBLIC, b"hello", b"context")
    assert unseal(PRIVATE, sealed, b"context") == b"hello" and b"hello" not in sealed
    with pytest.raises(KeyUnusable):
        unseal(PRIVATE, sealed, b"other")
    with pytest.raises(KeyUnusable):
        unseal(PRIVATE, sealed[:20], b"context")


def test_a_length_that_was_changed_is_told_from_a_torn_tail(tmp_path: Path) -> None:
    files, _, ends = written_segment(tmp_path)
    whole = bytearray(files.segment.read_bytes())
    whole[ends[2] + 3] = 0xFF  # the fourth frame now claims to be longer than the file
    files.segment.write_bytes(whole)
    reader = SegmentReader(files, PRIVATE)
    assert [located.end for located in reader.read()] == ends[:3]
    assert reader.tears_inside(ends[2])
    files.segment.write_bytes(whole[: ends[3]])
    assert not reader.tears_inside(ends[2])
    assert not reader.tears_inside(ends[3])


@pytest.mark.parametrize("num_zeros", [3, 8, 40, 5000])
def test_a_tail_of_zeros_is_a_torn_one(tmp_path: Path, num_zeros: int) -> None:
    files, _, ends = written_segment(tmp_path)
    os.truncate(files.segment, ends[3])
    os.truncate(files.segment, ends[3] + num_zeros)
    reader = SegmentReader(files, PRIVATE)
    assert [located.end for located in reader.read()] == ends[:4]
    assert not reader.tears_inside(ends[3])
