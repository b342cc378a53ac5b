"""A wheel holds all of the repository that what it holds imports or starts, so that every command works from it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py")) and not path.name.startswith(".")}
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
MODULE = re.compile(r"\w+(\.\w+)+")


def wanted(source: Path) -> Iterator[str]:
    """The modules that a file imports, and those that it names as a string: what it starts with ``python -m``."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            yield node.value


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_needs_of_the_repository_is_in_the_wheel(package: str) -> None:
    missing = {
        (str(source.relative_to(ROOT)), name)
        for source in (ROOT / package).rglob("*.py")
        for name in wanted(source)
        if (top := name.partition(".")[0]) in OURS and top not in PACKAGES
    }
    assert not missing


def test_the_demos_programs_are_found_by_name() -> None:
    assert {"examples.triage.agent", "examples.triage.user"} <= set(wanted(ROOT / "deploy" / "demo" / "arm.py"))
