"""A real Chromium in front of a real relay: ``HEADRACE_CHROMIUM`` and ``HEADRACE_CHROMEDRIVER``, or Debian's."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
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
    """Waits for a condition, for as long as a slow machine needs."""
    return WebDriverWait(driver, PATIENCE_S)


def sign_in(driver: WebDriver, address: str, key: str) -> None:
    """By keys alone: the key's field has the focus, a moment after the page has come."""
    driver.get(f"{address}/sign-in")
    wait(driver).until(lambda d: d.switch_to.active_element.get_attribute("name") == "key")
    driver.switch_to.active_element.send_keys(key)
    driver.find_element(By.NAME, "purpose").send_keys(PURPOSE + "\n")
    wait(driver).until(lambda d: "/sign-in" not in d.current_url)


def press(driver: WebDriver, *keys: str) -> None:
    """Keys, wherever the focus goes."""
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def at(driver: WebDriver, path: str) -> None:
    """Waits until that page is there."""
    wait(driver).until(
        lambda d: f"/console{path}" in d.current_url and d.execute_script("return document.readyState") == "complete"
    )
