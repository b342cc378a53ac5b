"""What is said of a process that ended: its status, and of memory no more than the kernel's count shows."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.launcher.child import Child, ChildSpec, describe_status

NOT_SHOWN = "killed by signal 9; nothing here shows that memory ran out"
UNKNOWN = "killed by signal 9; whether memory ran out cannot be told here"
RAN_OUT = "killed by signal 9; memory ran out: the kernel's count of kills for that rose by 2 since its start"


@pytest.mark.parametrize(
    ("status", "before", "now", "said"),
    [
        (0, 0, 0, "exit status 0"),
        (2, 0, 1, "exit status 2"),
        (128, 0, 0, "exit status 128"),
        (139, 0, 1, "killed by signal 11"),
        (-11, 0, 0, "killed by signal 11"),
        (137, 3, 3, NOT_SHOWN),
        (-9, 3, 3, NOT_SHOWN),
        (137, 3, 5, RAN_OUT),
        (-9, 3, 5, RAN_OUT),
        (137, None, 5, UNKNOWN),
        (137, 3, None, UNKNOWN),
        (137, None, None, UNKNOWN),
    ],
)
def test_a_status_is_said_in_words(status: int, before: int | None, now: int | None, said: str) -> None:
    assert describe_status(status, before, now) == said


@pytest.mark.slow
async def test_the_count_of_each_life_is_its_own(tmp_path: Path) -> None:
    """Two lives end by SIGKILL; the count rises by two in the first, and not at all in the second."""

    async def command() -> list[str]:
        return [sys.executable, "-I", "-S", "-c", "import os; os.kill(os.getpid(), 9)"]

    def counts() -> Iterator[int]:
        yield from (3, 5, 5, 5)

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            child.kill()

    said: list[str] = []
    spec = ChildSpec("engine", command, dict(os.environ), None, ready_timeout_s=0.0, grace_s=5.0)
    child = Child(spec, tmp_path / "engine.log", tmp_path / "engine.pid", say, counts().__next__)
    await child.run()
    assert RAN_OUT in said[0] and NOT_SHOWN in said[1]
