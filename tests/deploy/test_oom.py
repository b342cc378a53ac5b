"""The kernel's count of kills for want of memory is found wherever Linux keeps it, and nothing is made up where it keeps none."""

from pathlib import Path

import pytest

from deploy.launcher.oom import num_oom_kills

V2_EVENTS = "low 0\nhigh 4\nmax 7\noom 3\noom_kill 2\noom_group_kill 9\n"
V1_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"
V2_GROUP = "0::/user.slice/headrace.scope\n"
V1_GROUPS = "9:name=systemd:/\n4:cpu,memory:/job/1\n3:cpuset:/\n0::/\n"


def counted(directory: Path, groups: str, files: dict[str, str]) -> int | None:
    """The count for a process of ``groups`` where ``files`` are mounted."""
    membership, mounts = directory / "cgroup", directory / "mounts"
    membership.write_text(groups)
    for name, text in files.items():
        (mounts / name).parent.mkdir(parents=True, exist_ok=True)
        (mounts / name).write_text(text)
    return num_oom_kills(membership, mounts)


@pytest.mark.parametrize(
    ("groups", "files", "count"),
    [
        pytest.param(V2_GROUP, {"user.slice/headrace.scope/memory.events": V2_EVENTS}, 2, id="v2"),
        pytest.param(V2_GROUP, {"user.slice/memory.events": V2_EVENTS}, 2, id="v2: a group above counts for it"),
        pytest.param(V2_GROUP, {"memory.events": V2_EVENTS}, 2, id="v2: a container that shows its own group on top"),
        pytest.param("0::/\n", {"memory.events": V2_EVENTS}, 2, id="v2: a container with a namespace of its own"),
        pytest.param(
            V2_GROUP,
            {"user.slice/headrace.scope/memory.events": V2_EVENTS, "user.slice/memory.events": "oom_kill 8\n"},
            2,
            id="v2: the nearest group",
        ),
        pytest.param(V1_GROUPS, {"memory/job/1/memory.oom_control": V1_CONTROL}, 5, id="v1"),
        pytest.param(V1_GROUPS, {"memory/memory.oom_control": V1_CONTROL}, 5, id="v1: a container"),
        pytest.param(V1_GROUPS, {"cpuset/memory.oom_control": V1_CONTROL}, None, id="v1: no counter of memory"),
        pytest.param(
            V1_GROUPS, {"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, None, id="v1 before Linux 4.13"
        ),
        pytest.param(V2_GROUP, {"memory.events": "oom_kill\n"}, None, id="another form"),
        pytest.param(V2_GROUP, {}, None, id="nothing mounted"),
        pytest.param("", {"memory.events": V2_EVENTS}, None, id="no group"),
    ],
)
def test_the_count_is_that_of_the_processes_own_group(
    tmp_path: Path, groups: str, files: dict[str, str], count: int | None
) -> None:
    assert counted(tmp_path, groups, files) == count


def test_without_control_groups_there_is_no_count(tmp_path: Path) -> None:
    assert num_oom_kills(tmp_path / "none", tmp_path) is None
