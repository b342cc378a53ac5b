"""The console as people use it: a real browser, real clicks and keys, and what axe-core finds."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import select

from dataproxy.store.schema import access_log, erasure, legal_hold, review_mark, saved_view
from tests.console.browse import PURPOSE
from tests.console.chrome import at, press, screen, seated, send, turned, wait
from tests.console.conftest import Stage
from tests.console.screenshots import DESK, PHONE, pages

pytestmark = pytest.mark.slow
_SERIOUS = ("serious", "critical")
_ALL_RULES, _CONTRAST = "reporter: 'v1'", "runOnly: ['color-contrast']"


def axe() -> str:
    """The source of axe-core, as the test package ships it."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("NOT TESTED: axe-core is not here: pip install --no-deps axe-playwright-python")
    return (Path(found.origin).parent / "axe.min.js").read_text()


def test_a_trajectory_is_found_and_read_by_keys_alone(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get(f"{address}/holds")
    press(driver, "g", "t")
    at(driver, "/trajectories")
    press(driver, "/", "dhl", Keys.ENTER)
    at(driver, "/trajectories?text=dhl")
    press(driver, "j", Keys.ENTER)
    at(driver, f"/trajectories/{stage.names['orders']}")
    press(driver, "j", "j")
    assert driver.switch_to.active_element.tag_name == "article"
    press(driver, "?")
    wait(driver).until(lambda d: d.find_element(By.ID, "keys").is_displayed())
    press(driver, Keys.ESCAPE)
    wait(driver).until(lambda d: not d.find_element(By.ID, "keys").is_displayed())
    reads = select(access_log.c.purpose).where(access_log.c.target == stage.names["orders"], access_log.c.what == "trajectory")
    assert {row.purpose for row in stage.proxy.rows(reads)} == {PURPOSE}


def test_tokens_open_in_place(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get(f"{address}/trajectories/{stage.names['orders']}")
    driver.find_element(By.CSS_SELECTOR, ".tokens-link").click()
    wait(driver).until(lambda d: len(d.find_elements(By.CSS_SELECTOR, ".strip li")) == 6)
    assert f"/trajectories/{stage.names['orders']}" in driver.current_url


def test_hostile_words_run_nothing_and_break_nothing(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get_log("browser")
    driver.get(f"{address}/trajectories/{stage.names['hostile']}")
    assert "crawler" in driver.title and driver.find_element(By.TAG_NAME, "main").is_displayed()
    assert driver.execute_script("return document.querySelectorAll('main script, main img, main style, main iframe').length") == 0
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


def test_a_hold_and_an_audit_by_clicks(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get(f"{address}/trajectories/{stage.names['failed']}")
    driver.find_element(By.LINK_TEXT, "Put it on hold").click()
    at(driver, "/holds")
    driver.find_element(By.NAME, "reason").send_keys("a claim" + Keys.ENTER)
    at(driver, "/holds?done=held")
    assert stage.proxy.rows(select(legal_hold.c.target)) == [(stage.names["failed"],)]
    assert stage.leaves("legal_hold") == 1
    press(driver, "g", "v")
    at(driver, "/verify")
    audits = stage.on_record("audit")
    driver.find_element(By.XPATH, "//button[text()='Verify now']").click()
    wait(driver).until(lambda d: d.find_elements(By.ID, "verdict"))
    assert "Nothing was changed" in driver.find_element(By.ID, "verdict").text
    assert stage.on_record("audit") == [*audits, "verify"]


def test_filters_become_a_view_and_go_again_by_clicks(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get(f"{address}/trajectories?agent=crawler")
    driver.find_element(By.XPATH, "//summary[text()='Keep these filters as a view']").click()
    driver.find_element(By.NAME, "title").send_keys("crawls" + Keys.ENTER)
    at(driver, "/trajectories?agent=crawler&done=kept")
    for link in ("Trajectories", "crawls"):
        with turned(driver):
            driver.find_element(By.LINK_TEXT, link).click()
    at(driver, "/trajectories?agent=crawler")
    assert stage.proxy.rows(select(saved_view.c.title)) == [("crawls",)]
    driver.find_element(By.XPATH, "//summary[text()='Take a saved view away']").click()
    driver.find_element(By.XPATH, "//button[contains(text(), 'crawls')]").click()
    at(driver, "/trajectories?done=removed")
    assert stage.proxy.count(saved_view) == 0


def test_a_redaction_is_judged_by_clicks(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, stage = console
    driver.get(f"{address}/trajectories")
    press(driver, "g", "q")
    at(driver, "/review")
    press(driver, "j", Keys.ENTER)
    at(driver, f"/review/{stage.names['unsure']}")
    driver.find_element(By.XPATH, "//button[text()='Mark it as right']").click()
    wait(driver).until(lambda d: d.find_elements(By.ID, "marked"))
    assert stage.proxy.rows(select(review_mark.c.verdict, review_mark.c.policy)) == [("right", None)]
    assert stage.leaves("review_mark") == 1


def test_a_branch_of_the_tree_stands_further_in_than_the_line_that_it_leaves(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, _ = console
    driver.get(f"{address}/learning")
    cells = {
        name: driver.find_element(By.XPATH, f"//tr[td[1]/a[text()='{name}']]/td[1]") for name in ("v000004", "v000001", "v000002")
    }
    ends = {name: cell.find_element(By.TAG_NAME, "a").location["x"] for name, cell in cells.items()}
    assert ends["v000002"] > ends["v000001"] == ends["v000004"]
    drawn = {name: cell.find_element(By.CSS_SELECTOR, ".node").rect for name, cell in cells.items()}
    assert all(drawn[name]["width"] and drawn[name]["x"] < ends[name] for name in cells)


def test_the_theme_is_switched_and_stays(console: tuple[WebDriver, str, Stage]) -> None:
    driver, address, _ = console
    driver.get(f"{address}/consents")
    before = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    press(driver, "d")
    wait(driver).until(lambda d: d.execute_script("return getComputedStyle(document.body).backgroundColor") != before)
    driver.refresh()
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") != before


def faults(driver: WebDriver, width: int) -> list[str]:
    """What somebody stumbles over on the page at hand; ``width`` is the screen's, for a phone zooms out to what is too wide."""
    found = [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    if (needed := driver.execute_script("return document.documentElement.scrollWidth")) > width:
        found.append(f"is {needed} pixels wide")
    if not driver.title.endswith(" · Headrace") or driver.title.startswith(" "):
        found.append(f"is called {driver.title!r}")
    if not driver.find_element(By.CSS_SELECTOR, "main h1").is_displayed():
        found.append("shows no heading")
    return found


@pytest.mark.parametrize(("width", "height"), [DESK, PHONE])
def test_every_page_fits_the_screen_and_nothing_in_it_fails(console: tuple[WebDriver, str, Stage], width: int, height: int) -> None:
    """As an operator, who sees every page. That there is no page of a name is the one error that belongs to its page."""
    driver, address, stage = console
    found: list[tuple[str, str]] = []
    with seated(driver, address, stage.proxy.key("admin", "", "")), screen(driver, width, height):
        driver.get_log("browser")
        for name, path in pages(stage.names).items():
            driver.get(address + path)
            found += [(name, what) for what in faults(driver, width) if name != "fault" or "404 (Not Found)" not in what]
    assert found == []


def test_axe_finds_no_serious_fault_on_any_page_in_either_theme(console: tuple[WebDriver, str, Stage]) -> None:
    """As an operator, who sees every page; what an action answers; and the form that one signs in with, refused once.

    The themes differ in colours alone: in the dark one their contrast is looked at.
    """
    driver, address, stage = console
    source, found = axe(), list[tuple[str, str, str, str]]()
    with seated(driver, address, stage.proxy.key("admin", "", "")):
        for name, path in (pages(stage.names) | {"held": "/holds?done=held"}).items():
            if name != "filtered":
                driver.get(address + path)
                found += serious(driver, source, name)
        driver.get(f"{address}/erasure?scope=trajectory&target={stage.names['orders']}&tenant=acme")
        send(driver, "/erasure", "Show what would go", reason="asked for")
        found += serious(driver, source, "what would go")
        driver.delete_all_cookies()
        driver.get(f"{address}/sign-in")
        found += serious(driver, source, "sign-in")
        send(driver, "/sign-in", "Sign in", key="hr_wrong", purpose="a look")
        found += serious(driver, source, "sign-in refused")
    assert found == []


def test_a_table_that_is_wider_than_a_phone_shows_that_it_goes_on_and_is_scrolled_by_keys(
    console: tuple[WebDriver, str, Stage],
) -> None:
    """At an edge where more follows there is a shadow; what scrolls with the table covers it at the table's ends."""
    driver, address, _ = console
    with screen(driver, *PHONE):
        driver.get(f"{address}/trajectories")
        table = driver.find_element(By.CSS_SELECTOR, ".scroll")
        assert driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", table)
        assert table.value_of_css_property("background-attachment") == "local, local, scroll, scroll"
        assert table.value_of_css_property("background-image").count("linear-gradient") == 4
        assert (table.aria_role, table.accessible_name) == ("region", "List of trajectories")
        driver.execute_script("arguments[0].focus()", table)
        press(driver, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        wait(driver).until(lambda d: d.execute_script("return arguments[0].scrollLeft > 0", table))
        driver.execute_script(axe())
        assert [rule["id"] for rule in violations(driver, _ALL_RULES) if rule["impact"] in _SERIOUS] == []


def serious(driver: WebDriver, source: str, page: str) -> list[tuple[str, str, str, str]]:
    """Serious faults of the page at hand, which is called ``page``: theme, rule, and the first element that breaks it."""
    driver.execute_script(source)
    found = []
    for theme, rules in (("light", _ALL_RULES), ("dark", _CONTRAST)):
        driver.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        broken = [rule for rule in violations(driver, rules) if rule["impact"] in _SERIOUS]
        found += [(page, theme, rule["id"], rule["nodes"][0]["html"][:200]) for rule in broken]
    return found


def violations(driver: WebDriver, rules: str) -> list[dict[str, Any]]:
    """What axe finds on the page at hand, whose source it is part of by now."""
    run = f"axe.run(document, {{resultTypes: ['violations'], {rules}}}).then(arguments[0])"
    found: list[dict[str, Any]] = driver.execute_async_script(run)["violations"]
    return found


def test_what_is_erased_is_shown_before_and_after_by_clicks(console: tuple[WebDriver, str, Stage]) -> None:
    """The last test here: the others look at what it erases."""
    driver, address, stage = console
    driver.get(f"{address}/trajectories/{stage.names['hostile']}")
    driver.find_element(By.LINK_TEXT, "Erase it…").click()
    driver.find_element(By.NAME, "reason").send_keys("asked for" + Keys.ENTER)
    wait(driver).until(lambda d: "What would go" in d.find_element(By.TAG_NAME, "main").text)
    assert stage.proxy.count(erasure) == 0
    driver.find_element(By.NAME, "confirm").send_keys("1" + Keys.ENTER)
    wait(driver).until(lambda d: "What went" in d.find_element(By.TAG_NAME, "main").text)
    assert stage.proxy.count(erasure) == 1 and stage.leaves("erasure") == 1
