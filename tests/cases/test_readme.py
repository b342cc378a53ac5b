"""Each row of the list names tests, and each of them is there."""

import re
from pathlib import Path

LIST = Path(__file__).with_name("README.md")
ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_row_has_tests_that_exist() -> None:
    rows = [line for line in LIST.read_text().splitlines() if line.startswith("| ") and not line.startswith("| case")]
    assert len(rows) == 42
    for row in rows:
        named = TEST.findall(row)
        assert named, row
        for path, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name} is gone"
