"""Policy versions as the tree that they are, a row each: which line a version stands on, and where a line leaves another. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atdp.versions import PolicyVersion

MOST_DEPTH = 6
"""Further in than this no line is drawn."""


@dataclass(slots=True, frozen=True)
class Place:
    """A version on its line. ``depth``: 0 on the line of what serves, one more on a line that leaves another.

    ``is_branch``: its line leaves its parent's here; ``is_root``: it has no parent; ``is_tip``: nothing came of it.
    """

    version: PolicyVersion
    depth: int
    is_branch: bool
    is_root: bool
    is_tip: bool


def lineage(versions: Sequence[PolicyVersion]) -> list[Place]:
    """``versions`` (oldest first) with the newest on top; a branch stands whole, right above the version that it leaves.

    A line goes on to what serves; where nothing after it does, to the newest. What has its parent elsewhere begins a line.
    """
    before = {one.version: i for i, one in enumerate(versions)}
    children: dict[str | None, list[PolicyVersion]] = defaultdict(list)
    roots: list[PolicyVersion] = []
    for i, one in enumerate(versions):
        (children[one.parent] if one.parent is not None and before.get(one.parent, i) < i else roots).append(one)
    leads: dict[str, tuple[bool, int]] = {}
    for i, one in reversed(list(enumerate(versions))):
        leads[one.version] = max([(one.state == "serving", i), *(leads[child.version] for child in children[one.version])])

    def line(first: PolicyVersion, depth: int, is_branch: bool) -> Iterator[Place]:
        nodes = [first]
        while found := children[nodes[-1].version]:
            nodes.append(max(found, key=lambda child: leads[child.version]))
        for node in reversed(nodes):
            for child in reversed(children[node.version]):
                if child not in nodes:
                    yield from line(child, min(depth + 1, MOST_DEPTH), True)
            leaves = is_branch and node is first
            yield Place(node, depth, leaves, node.parent is None, node is nodes[-1])

    return [place for root in reversed(roots) for place in line(root, 0, False)]
