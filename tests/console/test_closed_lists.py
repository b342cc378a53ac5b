"""Filters whose values are known offer them; a value that is not among them, from an old address, still filters and is shown."""

import html
import re
from typing import get_args

import pytest
from sqlalchemy import select

from dataproxy.admit import REASONS
from dataproxy.store.access import What
from dataproxy.store.schema import access_log
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow


def offered(page: str, name: str) -> tuple[list[str], list[str]]:
    """(the values of a field to choose from, those that are chosen)."""
    (body,) = re.findall(rf'<select name="{name}">(.*?)</select>', page, re.S)
    options = re.findall(r'<option value="([^"]*)"( selected)?>', body)
    return [html.unescape(value) for value, _ in options], [html.unescape(value) for value, chosen in options if chosen]


def test_decisions_are_offered_by_name_and_in_words(stage: Stage) -> None:
    browser = stage.browser()
    page = browser.get("/trajectories?reason=http_error").text
    assert offered(page, "reason") == (["", *REASONS], ["http_error"])
    assert "http_error: the answer was an error" in browser.text
    assert stage.names["failed"] in page and stage.names["orders"] not in page


def test_kinds_of_things_read_are_offered_and_no_other_is_ever_on_record(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}/proof")
    browser.get("/exports/jsonl?agent=crawler")
    page = browser.get("/access?what=proof").text
    assert offered(page, "what") == (["", *sorted(get_args(What))], ["proof"])
    read = {row.what for row in stage.proxy.rows(select(access_log.c.what).distinct())}
    assert {"proof", "access_log", "export of trajectories"} <= read <= set(get_args(What))


@pytest.mark.parametrize(
    ("path", "name"), [("/trajectories", "reason"), ("/trajectories", "lane"), ("/trajectories", "kind"), ("/access", "what")]
)
def test_a_value_that_is_not_offered_any_more_still_filters_and_stays_in_the_form(stage: Stage, path: str, name: str) -> None:
    browser, odd = stage.browser(), 'of "yesterday"'
    answer = browser.get(f"{path}?{name}={odd}")
    assert answer.status_code == 200 and offered(answer.text, name)[1] == [odd]
    assert stage.names["failed"] not in answer.text and "fits." in browser.text
