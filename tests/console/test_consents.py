"""The page of consents: which word wins, said in words, and which row holds for whom."""

import re

import pytest

from tests.console.conftest import Stage

pytestmark = pytest.mark.slow


def rows_of(page: str, table: str) -> list[list[str]]:
    """The cells of a table by its label, as text."""
    body = page.split(f'aria-label="{table}"')[1].split("</table>")[0]
    cells = (re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in re.findall(r"<tr data-row>(.*?)</tr>", body, re.S))
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_the_page_says_which_word_wins_and_which_row_holds_now(stage: Stage) -> None:
    admin = stage.browser("admin")
    for agent, session, training in (("crawler", "", "no"), ("crawler", "crawl-1", "yes"), ("", "", "no"), ("crawler", "", "yes")):
        stage.proxy.clock.advance(1)
        admin.get("/consents")
        admin.post(
            "/consents",
            tenant="acme",
            agent=agent,
            session=session,
            recording="yes",
            training=training,
            reason=f"{agent} {training}",
        )
    page = stage.browser().get("/consents").text
    assert "The narrowest word holds, even where a broader one is later" in page
    held = rows_of(page, "Consents in force now")
    whole, agent, session = held
    assert [row[3:5] for row in held] == [["yes", "no"], ["yes", "yes"], ["yes", "yes"]]
    assert (whole[1:3], agent[1:3], session[1]) == (["all", "all"], ["crawler", "all"], "crawler")
    assert agent[5].endswith("instead of its tenant's word") and session[5].endswith("instead of its agent's word")
    said = [(row[6], row[8].split()[0]) for row in rows_of(page, "Consents on record")]
    assert said == [
        ("crawler yes", "in"),
        ("no", "in"),
        ("crawler yes", "in"),
        ("crawler no", "replaced"),
        ("a test", "replaced"),
    ]
