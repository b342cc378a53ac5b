"""What every template keeps to."""

import re

import pytest

from dataproxy.console.rendering import ASSETS

TEMPLATES = sorted((ASSETS.parent / "templates").glob("*.html"), key=lambda path: path.name)
_REGION = re.compile(r'<div class="scroll" tabindex="0" role="region" aria-label="[^"]+">\s*<table')
_TIME = re.compile(r'class="(?:[^"]* )?time(?: [^"]*)?"')


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_every_table_scrolls_in_a_region_that_has_a_name_and_takes_the_focus(template) -> None:  # type: ignore[no-untyped-def]
    text = template.read_text()
    assert len(_REGION.findall(text)) == text.count("<table")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_every_column_of_times_says_in_its_heading_that_they_are_utc(template) -> None:  # type: ignore[no-untyped-def]
    for table in template.read_text().split("<table")[1:]:
        body = table.split("</table>")[0]
        assert body.count("(UTC)") == len(_TIME.findall(body)), body[:200]


def test_there_are_templates_to_look_at() -> None:
    assert any("<table" in template.read_text() for template in TEMPLATES)
