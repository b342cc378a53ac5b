"""``python -m tests.console.screenshots DIR``: every page of the console as a picture, dark and light, on a desk and on a phone."""

import asyncio
import math
import random
import sys
import tempfile
from pathlib import Path

import msgspec
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import select

from atdp.versions import PolicyVersion, version_name
from dataproxy.ledger.rows import append_rows
from dataproxy.store.rewards import given_by_rule
from dataproxy.store.schema import reward, trajectory
from dataproxy.store.versions import register_version
from tests.console.browse import served
from tests.console.chrome import chromium, relayed, sign_in, turned, wait
from tests.console.story import BATCH, NOW_US, tell
from tests.dataproxy.proxy import Clock, Proxy

DESK, PHONE = (1280, 900), (390, 844)


def pages(names: dict[str, str]) -> dict[str, str]:
    """Name of a picture → path under /console."""
    orders = f"/trajectories/{names['orders']}"
    return {
        "trajectories": "/trajectories",
        "filtered": "/trajectories?text=dhl&rewarded=yes&since=2020-01-01",
        "trajectory": orders,
        "hostile": f"/trajectories/{names['hostile']}",
        "proof": f"{orders}/proof",
        "access": "/access",
        "review": "/review",
        "review-one": f"/review/{names['unsure']}?tenant=acme",
        "samples": "/review?why=sample",
        "quarantine": "/quarantine",
        "vault": "/vault",
        "consent": "/consents",
        "holds": f"/holds?scope=trajectory&target={names['orders']}&tenant=acme",
        "erasure": f"/erasure?scope=trajectory&target={names['orders']}&tenant=acme",
        "tenants": "/tenants",
        "keys": "/keys",
        "verify": "/verify",
        "learning": "/learning",
        "version": "/versions/v000004",
        "batch": f"/batches/{BATCH}",
        "order": "/versions/v000003/order",
        "compare": "/compare?first=v000003&second=v000004",
        "live": "/live",
        "terms": "/terms",
        "fault": "/nothing",
    }


def main() -> None:
    """Take them."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        proxy = Proxy(Path(directory), Clock(NOW_US))
        proxy.consent()
        names = asyncio.run(tell(proxy))
        _learn_on(proxy, names["orders"])
        with served(proxy.services, Path(directory)) as socket, relayed(socket) as address:
            for size, width, height, theme in (("desk", *DESK, "light"), ("desk", *DESK, "dark"), ("phone", *PHONE, "dark")):
                with chromium(width, height) as driver:
                    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _screen(width, height))
                    _take(driver, address, proxy.key("admin", "", ""), names, target, f"{size}-{theme}")
        proxy.services.database.close()


def _learn_on(proxy: Proxy, like: str) -> None:
    """A dozen versions more, each measured and rewarded, so that curves have something to show."""
    draw = random.Random(3)
    with proxy.services.database.write() as connection:
        row = connection.execute(select(trajectory).where(trajectory.c.trajectory_id == like)).one()._asdict()
        for i in range(5, 17):
            far = 1 - math.exp(-(i - 4) / 4)
            metrics = {"reward_mean": 0.9 * far, "entropy": 1.2 - 0.9 * far, "kl_behaviour_proximal": 0.004 + 0.01 * draw.random()}
            metrics |= {"staleness_mean": draw.choice((0.5, 1.0, 1.2)), "logprob_diff_median": 0.006 + 0.003 * draw.random()}
            metrics |= {"clip_fraction": 0.02 + 0.03 * draw.random(), "limited_fraction": 0.004, "grad_norm": 1.5 - far}
            metrics |= {"trained_tokens_per_s": 900 + 80 * draw.random(), "computed_tokens_per_s": 1300 + 90 * draw.random()}
            state = "serving" if i == 16 else "failed" if i == 11 else "retired"
            at = NOW_US + i * 600_000_000
            parent = 10 if i == 12 else i - 1
            made = PolicyVersion(version_name(i), version_name(parent), state, at, "v", batch_id=None, metrics=metrics)  # type: ignore[arg-type]
            register_version(connection, made, "internal", at)
            for n in range(0 if state == "failed" else 40):
                name = f"tr-{i:016x}{n:016x}"
                new = row | {"trajectory_id": name, "last_version": i, "newest_version": i, "num_rewards": 1, "started_us": at - n}
                connection.execute(trajectory.insert().values(new | {"session_id": f"s-{i}-{n}"}))
                value = float(draw.random() < 0.05 + 0.9 * far)
                given = given_by_rule("acme", ("trajectory", name, name), "solved", value, "test", at, "")
                connection.execute(reward.insert().values(msgspec.structs.asdict(given)))
                append_rows(connection, reward, [msgspec.structs.asdict(given)])


def _screen(width: int, height: int) -> dict[str, object]:
    return {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}


def _take(driver: WebDriver, address: str, key: str, names: dict[str, str], target: Path, kind: str) -> None:
    theme = kind.rpartition("-")[2]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    driver.get(f"{address}/sign-in")
    _save(driver, target / f"sign-in-{kind}.png")
    sign_in(driver, address, key)
    for name, path in pages(names).items():
        driver.get(address + path)
        if name == "trajectory":
            driver.find_element(By.CSS_SELECTOR, ".tokens-link").click()
            wait(driver).until(lambda d: d.find_elements(By.CSS_SELECTOR, ".strip li"))
        if name == "verify":
            with turned(driver):
                driver.find_element(By.CSS_SELECTOR, "main form button").click()
            wait(driver).until(lambda d: d.find_elements(By.ID, "verdict"))
        if name == "erasure":
            driver.find_element(By.NAME, "reason").send_keys("asked for by its owner\n")
            wait(driver).until(lambda d: d.find_elements(By.NAME, "confirm"))
        _save(driver, target / f"{name}-{kind}.png")


def _save(driver: WebDriver, file: Path) -> None:
    height = driver.execute_script("return Math.min(document.documentElement.scrollHeight, 2400)")
    width = driver.execute_script("return window.innerWidth")
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _screen(int(width), int(height)))
    driver.save_screenshot(str(file))
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _screen(int(width), 844 if width < 600 else 900))


if __name__ == "__main__":
    main()
