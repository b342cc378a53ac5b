"""The Learning page: alarms in words, and versions on the lines of their tree."""

import re

import pytest
from msgspec import structs

from dataproxy.store.versions import get_version, register_version
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow


def test_an_alarm_that_cannot_judge_is_not_called_quiet_and_says_why(stage: Stage) -> None:
    stage.proxy.clock.advance(60)  # what was trained began more than an hour ago
    browser = stage.browser()
    browser.get("/learning")
    (said,) = re.findall(r'<span class="tag ">([^<]*)</span> <b>starvation</b> (.*?) <small>', browser.page, re.S)
    assert said[0] == "too little to judge" and "1 may train, 0 rewarded" in said[1] and "None of them is rewarded." in said[1]
    assert '<span class="todo">Send rewards' in said[1]


def test_versions_stand_on_their_lines_with_their_parents_and_marks(stage: Stage) -> None:
    browser, database = stage.browser(), stage.proxy.services.database
    browser.get("/learning")
    below = [
        ("d0", "v000003 retired", "v000001"),
        ("d1 branch tip", "v000002 retired", "a branch of v000001"),
        ("d0", "v000001 retired", "v000000"),
        ("d0 root", "v000000 retired", "the model as it came"),
    ]
    assert lines_of(browser.page) == [("d0 tip", "v000004 serving", "v000003"), *below]
    assert 'branch of <a href="/console/versions/v000001">' in browser.page
    for state in ("canary", "retired"):
        with database.write() as connection:
            version = structs.replace(get_version(connection, "v000002"), state=state)
            register_version(connection, version, "internal", stage.proxy.clock())
        browser.get("/learning")
        assert ("d1 branch tip", f"v000002 {state}", "a branch of v000001") in lines_of(browser.page)
        assert browser.page.count('<tr data-row class="canary">') == (state == "canary")


def lines_of(page: str) -> list[tuple[str, str, str]]:
    """Where each version's row of the tree stands, what it says of the version, and of its parent."""
    rows = re.findall(r'<td class="line ([^"]*)">(.*?)</td><td>(.*?)</td>', page)
    return [(where, *(re.sub(r"<[^>]*>", "", text) for text in texts)) for where, *texts in rows]
