"""Versions as a tree: lines, where they leave each other, and which of them is the main one."""

from atdp.versions import PolicyVersion, version_name
from dataproxy.console.lineage import MOST_DEPTH, lineage


def drawn(parents: list[int | None], serving: int | None = None, first: int = 0) -> list[tuple[int, int, str]]:
    """(version, depth, marks) from the top; ``parents`` of version ``first`` and the ones after it."""
    versions = [
        PolicyVersion(
            version_name(i), version_name(parent) if parent is not None else None, "serving" if i == serving else "retired", i, ""
        )
        for i, parent in enumerate(parents, first)
    ]
    return [
        (int(place.version.version[1:]), place.depth, "branch " * place.is_branch + "root " * place.is_root + "tip" * place.is_tip)
        for place in lineage(versions)
    ]


def test_a_straight_line_has_a_tip_and_a_root() -> None:
    assert drawn([None, 0, 1], serving=2) == [(2, 0, "tip"), (1, 0, ""), (0, 0, "root ")]


def test_what_leads_to_the_serving_version_is_the_main_line_and_a_branch_stands_whole_above_where_it_leaves() -> None:
    assert drawn([None, 0, 1, 1, 3, 2], serving=4) == [
        (4, 0, "tip"),
        (3, 0, ""),
        (5, 1, "tip"),
        (2, 1, "branch "),
        (1, 0, ""),
        (0, 0, "root "),
    ]


def test_after_a_rollback_the_line_goes_on_from_what_serves() -> None:
    assert drawn([None, 0, 1, 2], serving=1) == [(3, 0, "tip"), (2, 0, ""), (1, 0, ""), (0, 0, "root ")]
    assert drawn([None, 0, 1, 2, 1], serving=1)[:3] == [(4, 0, "tip"), (3, 1, "tip"), (2, 1, "branch ")]


def test_a_branch_of_a_branch_is_further_in_and_not_without_end() -> None:
    assert drawn([None, 0, 0, 2, 2], serving=1) == [
        (1, 0, "tip"),
        (4, 1, "tip"),
        (3, 2, "branch tip"),
        (2, 1, "branch "),
        (0, 0, "root "),
    ]
    nested = [None, *range(9), *range(8, -1, -1)]  # each goes on to a newer leaf, so that the rest of its line is a branch
    assert max(depth for _, depth, _ in drawn(nested)) == MOST_DEPTH


def test_each_version_stands_once_though_its_parent_is_not_on_the_list() -> None:
    rows = drawn([2, 7, 2, 9], serving=10, first=7)
    assert rows == [(10, 0, "tip"), (9, 0, ""), (8, 0, "tip"), (7, 0, "")]
    assert drawn([]) == [] and drawn([0, 2, 1]) == [(2, 0, "tip"), (1, 0, ""), (0, 0, "tip")]
