"""The table against the product: a fault point without a row, or a row without a test, fails here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.rows import ROWS, Row

ROOT = Path(__file__).parents[2]
PRODUCT = ("atdp", "gateway", "router", "dataproxy", "workers", "deploy")
LIVES_IN = {
    "workers/inference/client/": {"trainer", "publisher", "keeper"},
    "workers/inference/": {"engine"},
    "workers/trainer/publish.py": {"trainer", "publisher"},
    "workers/trainer/": {"trainer"},
    "gateway/": {"gateway"},
    "dataproxy/capture/": {"gateway"},
    "dataproxy/": {"data proxy"},
}
"""Which processes pass a point, by the beginning of its file's path; the first that fits."""


def named_points() -> Iterator[tuple[str, str]]:
    """(file, point) for every fault point that the product names."""
    for top in PRODUCT:
        for path in (ROOT / top).rglob("*.py"):
            text = path.read_text()
            if "faults" in text and path != ROOT / "atdp" / "faults.py":
                for call in ast.walk(ast.parse(text)):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) in ("faults.point", "point"):
                        (name,) = call.args
                        assert isinstance(name, ast.Constant) and isinstance(name.value, str), f"{path}: a point has a fixed name"
                        yield str(path.relative_to(ROOT)), name.value


def test_every_fault_point_of_the_product_has_a_row_for_every_process_that_passes_it() -> None:
    found = list(named_points())
    assert found
    homes = {file: next((who for start, who in LIVES_IN.items() if file.startswith(start)), None) for file, _ in found}
    assert not [file for file, who in homes.items() if who is None], "say in LIVES_IN which process passes the points of this file"
    assert {(point, who) for file, point in found for who in homes[file] or ()} == {(row.point, row.dies) for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dies}-{row.point}")
def test_the_tests_that_a_row_names_are_there_and_take_their_points_from_the_table(row: Row) -> None:
    for test in (row.quick, row.real):
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert f"def {name}(" in text, test
        assert "from tests.chaos.rows import " in text, f"{file} has points of its own"
