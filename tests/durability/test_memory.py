"""Under a steady load at half of what the machine can do, memory and open files stay where the warm-up left them."""

import os
import statistics
import time
from pathlib import Path

import pytest

from tests.durability.machine import Machine, machine
from tests.durability.results import keep
from tests.durability.test_kills import load, num_answers, wait_for_answers

pytestmark = [
    pytest.mark.slow,
    # httpcore leaves the socket that a data proxy between two lives refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NAMES = ("gateway", "dataproxy")
SOAK_S = float(os.environ.get("HEADRACE_SOAK_S", "3600"))
"""``HEADRACE_SOAK_S=300 make soak`` for a shorter one."""
SAMPLES = 20
LONG_S = 60.0
CONCURRENCY = 8


def rss_kib(pid: int) -> int:
    """Resident memory of a process that nobody shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def num_files(pid: int) -> int:
    """Open files and sockets of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def rate_of(here: Machine, key: str, directory: Path, answers: int) -> float:
    """Answers a second at full load."""
    received = directory / "full.jsonl"
    with load(here, key, received, CONCURRENCY):
        wait_for_answers(here, received, answers // 4)
        start, before = time.monotonic(), num_answers(received)
        wait_for_answers(here, received, answers)
        return (num_answers(received) - before) / (time.monotonic() - start)


def flat(samples: list[int], slack: float) -> bool:
    """Whether the second half grows by less than half of what the first, the warm-up, did, or by no more than ``slack`` of it all.

    What leaks with every call grows in both alike.
    """
    quarter = len(samples) // 4
    first, middle, last = (
        statistics.median(part) for part in (samples[:quarter], samples[quarter : 3 * quarter], samples[-quarter:])
    )
    return last - middle <= max(0.5 * (middle - first), slack * middle)


@pytest.mark.parametrize("seconds", [pytest.param(10.0, id="short"), pytest.param(SOAK_S, id="long", marks=pytest.mark.soak)])
def test_memory_and_open_files_stay_flat_at_half_load(tmp_path: Path, seconds: float) -> None:
    with machine(tmp_path, HEADRACE_GATEWAY_JOURNAL_SEGMENT_BYTES="1000000") as here:
        key = here.new_agent()
        full = rate_of(here, key, tmp_path, 100)
        received = tmp_path / "half.jsonl"
        memory: dict[str, list[int]] = {name: [] for name in NAMES}
        files: dict[str, list[int]] = {name: [] for name in NAMES}
        with load(here, key, received, CONCURRENCY, pause_s=CONCURRENCY / full):
            for _ in range(SAMPLES):
                over = time.monotonic() + seconds / SAMPLES  # an hour is an hour, on a machine that other work shares too
                wait_for_answers(here, received, 3)
                here.until_time(over)
                for name in NAMES:
                    memory[name].append(rss_kib(here.pid(name)))
                    files[name].append(num_files(here.pid(name)))
        here.settle()
        print(f"{full:.0f} answers/s at full load; {num_answers(received)} at half; KiB {memory}; files {files}")
    for name in NAMES:
        assert flat(memory[name], slack=0.03), f"{name} grows: {memory[name]} KiB"
        assert flat(files[name], slack=0.5), f"{name} keeps files open: {files[name]}"
    if seconds > LONG_S:
        keep("memory", seconds=seconds, answers=num_answers(received), private_kib=memory, open_files=files)


def test_a_steady_growth_is_not_flat_and_a_warm_up_is() -> None:
    assert not flat([10_000 + 200 * n for n in range(SAMPLES)], slack=0.03)
    assert flat([10_000 + min(n, 6) * 500 for n in range(SAMPLES)], slack=0.03)
    assert flat([10_000 + n % 3 * 40 for n in range(SAMPLES)], slack=0.03)
