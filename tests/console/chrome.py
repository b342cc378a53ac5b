"""A real Chromium in front of a real relay: ``HEADRACE_CHROMIUM`` and ``HEADRACE_CHROMEDRIVER``, or Debian's."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from dataproxy.console.relay import create_relay, listen, server_on
from tests.console.browse import PURPOSE

PATIENCE_S = 30


def find_chromium() -> tuple[str, str] | None:
    """Browser and driver, or None where there is none."""
    browser = os.environ.get("HEADRACE_CHROMIUM") or shutil.which("chromium")
    driver = os.environ.get("HEADRACE_CHROMEDRIVER") or shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def relayed(data_proxy: Path) -> Iterator[str]:
    """The relay on a free port; gives the console's address."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = server_on(create_relay(data_proxy, {f"127.0.0.1:{port}"}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/console"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[WebDriver]:
    """A headless one with nothing in it, ended by its own driver."""
    found = find_chromium()
    assert found is not None
    options = webdriver.ChromeOptions()
    for option in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
    ):
        options.add_argument(option)
    options.binary_location = found[0]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    try:
        yield driver
    finally:
        driver.quit()


def wait(driver: WebDriver) -> WebDriverWait[WebDriver]:
    """Waits for a condition, for as long as a slow machine needs; an element of the page before is none of the condition's."""
    return WebDriverWait(driver, PATIENCE_S, ignored_exceptions=[StaleElementReferenceException])


def sign_in(driver: WebDriver, address: str, key: str) -> None:
    """By keys alone: the key's field has the focus, a moment after the page has come."""
    driver.get(f"{address}/sign-in")
    wait(driver).until(lambda d: d.switch_to.active_element.get_attribute("name") == "key")
    driver.switch_to.active_element.send_keys(key)
    driver.find_element(By.NAME, "purpose").send_keys(PURPOSE + "\n")
    wait(driver).until(lambda d: "/sign-in" not in d.current_url)


@contextmanager
def seated(driver: WebDriver, address: str, key: str) -> Iterator[None]:
    """Somebody else sits down at the same browser; afterwards whoever sat there before is back."""
    before = driver.get_cookies()
    driver.delete_all_cookies()
    sign_in(driver, address, key)
    try:
        yield
    finally:
        driver.delete_all_cookies()
        for cookie in before:
            driver.add_cookie(cookie)


@contextmanager
def screen(driver: WebDriver, width: int, height: int) -> Iterator[None]:
    """A screen of that many pixels; a narrow one is a phone's."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def turned(driver: WebDriver) -> Iterator[None]:
    """Another page is there, whole, at the end of the block, though it may have the address of the one before."""
    driver.execute_script("window.isBefore = true")
    yield
    wait(driver).until(lambda d: d.execute_script("return !window.isBefore && document.readyState === 'complete'"))


def send(driver: WebDriver, action: str, button: str, **fields: str) -> None:
    """Fill the first form on the page whose action has ``action`` in it and that has ``button``, and press that.

    What the form is folded into is opened first. Returns once the page that comes of it is there.
    """
    where = f"//main//form[contains(@action, '{action}')][.//button[normalize-space()='{button}']]"
    form = driver.find_element(By.XPATH, where)
    for summary in form.find_elements(By.XPATH, "ancestor::details[not(@open)]/summary"):
        summary.click()
    pressed = form.find_element(By.XPATH, f".//button[normalize-space()='{button}']")
    wait(driver).until(lambda _: pressed.is_displayed())
    for name, value in fields.items():
        field = form.find_element(By.NAME, name)
        if field.tag_name == "select":
            Select(field).select_by_visible_text(value)
        else:
            field.clear()
            field.send_keys(value)
    with turned(driver):
        pressed.click()


def press(driver: WebDriver, *keys: str) -> None:
    """Keys, wherever the focus goes."""
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def at(driver: WebDriver, path: str) -> None:
    """Waits until that page is there."""
    wait(driver).until(
        lambda d: f"/console{path}" in d.current_url and d.execute_script("return document.readyState") == "complete"
    )
