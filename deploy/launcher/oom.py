"""What the kernel says of processes that it killed because memory ran out. It tells by a counter, not by the death itself:
whoever dies of SIGKILL was killed by this, by an operator, or by a program, and looks the same.

Source: docs.kernel.org, cgroup-v2 (``memory.events``) and cgroup-v1/memory (``memory.oom_control``).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_MEMBERSHIP = Path("/proc/self/cgroup")
_MOUNTS = Path("/sys/fs/cgroup")


def num_oom_kills(membership: Path = _MEMBERSHIP, mounts: Path = _MOUNTS) -> int | None:
    """How many processes of this one's control group any OOM killer has killed so far; None where that cannot be read.

    What this process starts is in its group. ``membership`` and ``mounts`` are where Linux has them.
    """
    for path in _counters(membership, mounts):
        with suppress(OSError, ValueError):
            fields = dict(line.split() for line in path.read_text().splitlines())
            if "oom_kill" in fields:
                return int(fields["oom_kill"])
    return None


def _counters(membership: Path, mounts: Path) -> Iterator[Path]:
    """Files that may hold the counter, the best first.

    A group without a counter of its own is counted in those above it (v2), and in a container a group's path is the host's, while
    the mount shows the container's own group at its top.
    """
    with suppress(OSError):
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
        v2 = [group for number, _, group in groups if number == "0"]
        v1 = [group for _, controllers, group in groups if "memory" in controllers.split(",")]
        for group in v2:
            for above in _upwards(group):
                yield mounts / above / "memory.events"
        for group in v1:
            for above in _upwards(group):
                yield mounts / "memory" / above / "memory.oom_control"


def _upwards(group: str) -> list[PurePosixPath]:
    """``/a/b`` → ``a/b``, ``a``, ``.``"""
    inside = PurePosixPath(group.lstrip("/"))
    return [inside, *inside.parents]
