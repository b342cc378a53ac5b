"""Somebody who has never seen it answers the four questions by links and labels that the README names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import select

from dataproxy.store.schema import access_log
from tests.console.browse import PURPOSE
from tests.console.chrome import chromium, find_chromium, relayed, sign_in, turned, wait
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow
_ROOT = Path(__file__).parents[2]


class Newcomer:
    """Clicks and fills in only what the README names."""

    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver
        self.readme = " ".join((_ROOT / "README.md").read_text().split())

    def click(self, label: str, given: bool = False) -> None:
        """A link or a button to another page by what it says; ``given``: that is the name in the question itself."""
        assert given or f"*{label}*" in self.readme, f"the README does not name {label}"
        path = f"//a[normalize-space()='{label}'] | //button[normalize-space()='{label}']"
        with turned(self.driver):
            self.driver.find_element(By.XPATH, path).click()

    def fill(self, label: str, text: str) -> None:
        """A field by its label."""
        assert f"*{label}*" in self.readme, f"the README does not name {label}"
        field = self.driver.find_element(By.XPATH, f"//label[starts-with(normalize-space(), '{label}')]/input")
        field.clear()
        field.send_keys(text)

    def sees(self, *texts: str) -> None:
        """Waits until the page says all of them."""
        wait(self.driver).until(lambda d: all(text in d.find_element(By.TAG_NAME, "main").text for text in texts))


@pytest.fixture
def newcomer(stage: Stage) -> Iterator[Newcomer]:
    if find_chromium() is None:
        pytest.skip("NOT TESTED: there is no Chromium on this machine; on Debian: apt-get install -y chromium chromium-driver")
    with relayed(stage.socket) as address, chromium() as driver:
        sign_in(driver, address, stage.proxy.key("reviewer"))
        yield Newcomer(driver)


def test_the_four_questions_are_answered_by_what_the_readme_names(stage: Stage, newcomer: Newcomer) -> None:
    before = stage.browser()
    before.get(f"/trajectories/{stage.names['hostile']}")
    reader = stage.proxy.rows(select(access_log.c.key_id).where(access_log.c.target == stage.names["hostile"]))[0][0]

    newcomer.click("Access")  # who read trajectory X?
    newcomer.fill("Which", stage.names["hostile"])
    newcomer.click("Find")
    newcomer.sees(reader, PURPOSE)

    newcomer.click("Learning")  # what was trained into version N?
    newcomer.click("v000004", given=True)
    newcomer.sees("It learned from", stage.names["orders"])

    newcomer.click("Trajectories")  # why was trajectory Y not trained?
    newcomer.fill("Text", stage.names["failed"])
    newcomer.click("Find")
    newcomer.sees("Was it trained?", "Nothing of it may train", "the answer was an error")

    newcomer.click("Verify")  # was anything changed?
    newcomer.click("Verify now")
    newcomer.sees("Nothing was changed")
