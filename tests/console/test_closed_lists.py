"""Fields of an address whose values are known: they are offered, and anything else is refused with what there is instead."""

import html
import re
from typing import get_args
from urllib.parse import quote

import pytest
from sqlalchemy import select

from dataproxy.admit import REASONS
from dataproxy.store.access import What
from dataproxy.store.schema import access_log
from tests.console.browse import Browser
from tests.console.conftest import Stage
from tests.console.test_pages import ALL

pytestmark = pytest.mark.slow
_FILTERS = ("lane", "kind", "eligible", "reason", "outcome", "error", "rewarded")
CLOSED = [
    *(("/trajectories", name) for name in _FILTERS),
    *(("/exports/jsonl", name) for name in _FILTERS),
    *(
        ("/access", "what"),
        ("/access", "others"),
        ("/review", "why"),
        ("/holds", "scope"),
        ("/erasure", "scope"),
        ("/versions/v000003/order", "action"),
    ),
]
OF_VERSIONS = {("/compare", "first"), ("/compare", "second")}
"""Lists of versions, which are names: one that is not there is not found."""


def offered(page: str, name: str) -> tuple[list[str], list[str]]:
    """(the values of a field to choose from, those that are chosen)."""
    (body,) = re.findall(rf'<select name="{name}">(.*?)</select>', page, re.S)
    options = re.findall(r'<option value="([^"]*)"( selected)?>', body)
    return [html.unescape(value) for value, _ in options], [html.unescape(value) for value, chosen in options if chosen]


def instead(browser: Browser) -> list[str]:
    """What the page that refused says there is."""
    assert browser.answer is not None and browser.answer.status_code == 400
    assert "<h1>There is no such choice</h1>" in browser.page
    return [html.unescape(one) for one in re.findall(r"<li><code>([^<]*)</code></li>", browser.page)]


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


@pytest.mark.parametrize(("path", "name"), CLOSED)
def test_another_value_is_refused_with_the_field_the_value_and_what_there_is_instead(stage: Stage, path: str, name: str) -> None:
    browser, odd = stage.browser("admin", ""), '<i>of "yesterday"'
    reads = stage.leaves("access_log")
    browser.get(f"{path}?{name}={quote(odd)}")
    values = instead(browser)
    assert f"`{name}`" in browser.text and odd in browser.text and "<i>of" not in browser.page
    assert stage.leaves("access_log") == reads, "what is refused was not read"
    for value in ("", f"%20{quote(values[0])}", quote(values[-1])):
        assert browser.get(f"{path}?{name}={value}").status_code == 200, value


def test_every_list_to_choose_from_on_any_page_is_closed(stage: Stage) -> None:
    browser, found = stage.browser("admin", ""), set()
    for path in ALL:
        forms = re.findall(r'<form method="get" action="/console([^"]+)"(.*?)</form>', browser.get(path).text, re.S)
        found |= {(action, name) for action, body in forms for name in re.findall(r'<select name="([^"]+)"', body)}
    assert ("/access", "what") in found and found <= {*CLOSED, *OF_VERSIONS}


@pytest.mark.parametrize(
    ("path", "reads"), [("/trajectories", "reason"), ("/exports/jsonl", "reason"), ("/access", "target"), ("/learning", "")]
)
def test_a_field_that_the_page_does_not_have_is_refused_with_those_that_it_has(stage: Stage, path: str, reads: str) -> None:
    browser = stage.browser()
    browser.get(f"{path}?decision=http_error")
    assert reads in instead(browser) if reads else instead(browser) == []
    assert "This page has no field `decision`" in browser.text
    assert browser.get(f"{path}?done=kept").status_code == 200


def test_a_field_that_is_given_twice_is_refused_rather_than_one_of_them_dropped(stage: Stage) -> None:
    browser = stage.browser()
    assert browser.get("/trajectories?kind=IBAN&kind=CARD").status_code == 400
    assert "gives `kind` more than once" in browser.text and instead(browser) == ["CARD", "IBAN"]


def test_a_form_that_consents_by_another_word_than_yes_or_no_puts_nothing_on_record(stage: Stage) -> None:
    admin, before = stage.browser("admin"), stage.leaves("consent")
    admin.get("/consents")
    admin.post("/consents", tenant="acme", agent="", session="", recording="yes", training="maybe", reason="r")
    assert instead(admin) == ["yes", "no"] and "`training`" in admin.text and stage.leaves("consent") == before > 0


def test_a_number_that_cannot_be_read_is_named(stage: Stage) -> None:
    browser = stage.browser()
    assert browser.get(f"/trajectories/{stage.names['orders']}?start=first").status_code == 400
    assert "`start` in the address is not of the form that this page takes" in browser.text
