"""What governance does, by real clicks and keys: each action with its effect in the store and its leaf in the log."""

import asyncio
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec import structs
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import select

from dataproxy.store.consents import ConsentBook
from dataproxy.store.review_queue import SAMPLED_PER_MILLE
from dataproxy.store.schema import (
    api_key,
    consent,
    erasure,
    event,
    legal_hold,
    log_leaf,
    redaction_policy,
    retention_policy,
    review_mark,
    vault_approval,
    version_order,
)
from dataproxy.store.versions import get_version, register_version
from tests.console.chrome import seated, send, sign_in, turned, wait
from tests.console.conftest import Stage
from tests.dataproxy import proxy as proxy_for_tests
from tests.dataproxy.exchanges import exchange, user, write

pytestmark = pytest.mark.slow
Console = tuple[WebDriver, str, Stage]


def text_of(driver: WebDriver) -> str:
    return driver.find_element(By.TAG_NAME, "main").text


def status_of(driver: WebDriver) -> int:
    """The HTTP status that the page at hand came with."""
    return int(driver.execute_script("return performance.getEntriesByType('navigation')[0].responseStatus"))


def may_train(stage: Stage, agent: str) -> bool:
    with stage.proxy.services.database.read() as connection:
        return ConsentBook.read(connection).may_train("acme", agent)


def test_a_consent_is_withdrawn_and_given_again(console: Console) -> None:
    driver, address, stage = console
    before, words = stage.leaves("consent"), {"agent": "crawler", "recording": "allowed"}
    assert may_train(stage, "crawler")
    driver.get(f"{address}/consents")
    send(driver, "/consents", "Put on record", training="not allowed", reason="withdrawn", **words)
    assert "It is on record" in text_of(driver) and not may_train(stage, "crawler") and may_train(stage, "triage")
    stage.proxy.clock.advance(1)
    send(driver, "/consents", "Put on record", training="allowed", reason="given again", **words)
    assert "given again" in text_of(driver) and may_train(stage, "crawler")
    said = select(consent.c.training, consent.c.reason).where(consent.c.agent == "crawler").order_by(consent.c.created_us)
    assert stage.proxy.rows(said) == [(False, "withdrawn"), (True, "given again")]
    assert stage.leaves("consent") == before + 2


def test_a_retention_rule_is_put_on_record(console: Console) -> None:
    driver, address, stage = console
    driver.get(f"{address}/consents")
    send(driver, "/retention", "Put on record", name="short", agent="crawler", days="3650", reason="contract")
    assert "3650 days" in text_of(driver)
    assert stage.proxy.rows(select(retention_policy.c.agent, retention_policy.c.days)) == [("crawler", 3650.0)]
    assert stage.leaves("retention_policy") == 1


def test_a_hold_beats_an_erasure_until_it_is_released(console: Console) -> None:
    driver, address, stage = console
    where = f"scope=trajectory&target={stage.names['failed']}"
    driver.get(f"{address}/holds?{where}")
    send(driver, "/holds", "Hold", reason="a claim")
    assert "in force" in text_of(driver)
    driver.get(f"{address}/erasure?{where}")
    send(driver, "/erasure", "Show what would go", reason="asked for")
    assert status_of(driver) == 400 and "hold" in text_of(driver) and stage.proxy.count(erasure) == 0
    driver.get(f"{address}/holds")
    send(driver, "/release", "Release this hold", reason="settled")
    assert "The hold has ended" in text_of(driver)
    steps = stage.proxy.rows(select(legal_hold.c.action, legal_hold.c.reason).order_by(legal_hold.c.action))
    assert steps == [("add", "a claim"), ("release", "settled")] and stage.leaves("legal_hold") == 2
    driver.get(f"{address}/erasure?{where}")
    send(driver, "/erasure", "Show what would go", reason="asked for")
    assert "What would go" in text_of(driver) and stage.proxy.count(erasure) == 0


def test_a_key_is_made_shown_once_and_revoked(console: Console) -> None:
    driver, address, stage = console
    driver.get(f"{address}/keys")
    send(driver, "/keys", "Make it", role="reviewer")
    made = driver.find_element(By.CSS_SELECTOR, ".secret").text
    key_id = driver.find_element(By.CSS_SELECTOR, "[role=status] .id").text
    assert stage.proxy.services.keys.find(made, stage.proxy.clock()) is not None
    driver.get(f"{address}/keys")
    assert made not in driver.page_source
    send(driver, f"/{key_id}/revoke", "Revoke for good")
    assert "revoked for good" in text_of(driver)
    assert stage.proxy.services.keys.find(made, stage.proxy.clock()) is None
    assert stage.proxy.rows(select(api_key.c.revoked_us).where(api_key.c.key_id == key_id))[0][0] is not None
    assert stage.on_record("key made") == stage.on_record("key revoked") == [key_id]


def test_what_is_quarantined_is_tried_again_until_it_can_be_stored(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, address, stage = console
    driver.get(f"{address}/quarantine")
    calls = select(event.c.event_id).where(event.c.kind == "model_call")
    before, opened = len(stage.proxy.rows(calls)), len(stage.on_record("quarantine"))
    send(driver, "/quarantine/retry", "Try all of them once more")
    assert "0 can be governed now and are stored; 1 cannot yet" in text_of(driver)
    assert len(stage.proxy.rows(calls)) == before
    monkeypatch.setattr(proxy_for_tests, "BROKEN_WORD", "what nothing says")  # somebody mended the redactor
    send(driver, "/quarantine/retry", "Try it once more")
    assert "1 can be governed now and are stored; 0 cannot yet" in text_of(driver) and "stored since" in text_of(driver)
    assert driver.find_elements(By.XPATH, "//button[text()='Try it once more']") == []
    (name,) = {target for target in stage.on_record("quarantine")[opened:] if target}
    assert len(stage.proxy.rows(calls)) == before + 1 and (name,) in stage.proxy.rows(calls)
    assert stage.proxy.rows(select(log_leaf.c.kind).where(log_leaf.c.row_key == name, log_leaf.c.kind == "event")) == [("event",)]


def test_the_vault_is_asked_for_and_somebody_else_says_yes_and_no(console: Console) -> None:
    driver, address, stage = console
    driver.get(f"{address}/vault")
    for agent in ("triage", "crawler"):
        send(driver, "/vault", "Ask", agent=agent, days="7", reason=f"exact ids of {agent}")
        stage.proxy.clock.advance(1)
    assert text_of(driver).count("another key decides") == 2
    assert driver.find_elements(By.XPATH, "//main//button[text()='Approve']") == []
    with seated(driver, address, stage.proxy.key("reviewer")):
        driver.get(f"{address}/vault")
        send(driver, "/approve", "Deny", reason="not needed")
        send(driver, "/approve", "Approve", reason="agreed with legal")
        assert "The decision is in force" in text_of(driver)
        send(driver, "/revoke", "Revoke, and destroy the keys", reason="no longer needed")
    said = select(vault_approval.c.action, vault_approval.c.reason).where(vault_approval.c.action != "ask")
    assert sorted(stage.proxy.rows(said)) == [
        ("approve", "agreed with legal"),
        ("deny", "not needed"),
        ("revoke", "no longer needed"),
    ]
    assert stage.leaves("vault_approval") == 5


def test_what_was_missed_becomes_a_rule_with_where_else_it_stands(console: Console) -> None:
    driver, address, stage = console
    driver.get(f"{address}/review/{stage.names['unsure']}")
    elsewhere = f"//section[@id='marked']//a[contains(@href, '{stage.names['orders']}')]"
    for number, what in enumerate(({"value": "order 1042"}, {"pattern": "order 10[0-9]{2}"}), 1):
        send(driver, "/review/", "Mark it as missed", kind="ORDER_NUMBER", reason="numbers of orders are personal here", **what)
        marked = driver.find_element(By.ID, "marked").text
        assert f"redaction policy {number} holds" in marked and "The same stands in 3 other events" in marked
        assert len(driver.find_elements(By.XPATH, elsewhere)) == 3
    send(driver, "/review/", "Mark it as false", value="Perhapsson", reason="a street")
    assert "redaction policy 3 holds" in driver.find_element(By.ID, "marked").text
    marks = stage.proxy.rows(select(review_mark.c.verdict, review_mark.c.policy).order_by(review_mark.c.policy))
    assert marks == [("missed", 1), ("missed", 2), ("false", 3)] and stage.proxy.count(redaction_policy) == 3
    assert (stage.leaves("review_mark"), stage.leaves("redaction_policy")) == (3, 3)


def test_what_cannot_be_is_refused_in_words_and_leaves_nothing(console: Console) -> None:
    driver, address, stage = console
    tables = (consent, retention_policy, vault_approval, review_mark, api_key)
    before = [stage.proxy.count(table) for table in tables]
    for path, action, button, fields, says in (
        ("/consents", "/consents", "Put on record", {"agent": "crowler", "reason": "r"}, "did you mean crawler?"),
        ("/consents", "/retention", "Put on record", {"name": "x", "days": "soon", "reason": "r"}, "`days` is a number"),
        ("/vault", "/vault", "Ask", {"days": "0", "reason": "r"}, "`days` above 0"),
        ("/keys", "/keys", "Make it", {"role": "agent"}, "an agent's key the `agent` too"),
        (
            f"/review/{stage.names['unsure']}",
            "/review/",
            "Mark it as missed",
            {"kind": "PERSON", "value": "Zorbelina", "reason": "r"},
            "give a `pattern` instead",
        ),
    ):
        driver.get(address + path)
        send(driver, action, button, **fields)
        assert says in driver.find_element(By.CSS_SELECTOR, "[role=alert]").text and status_of(driver) in (400, 404), path
    assert [stage.proxy.count(table) for table in tables] == before


def test_an_order_is_given_and_taken_back(console: Console) -> None:
    driver, address, stage = console
    with seated(driver, address, stage.proxy.key("admin", "", "")):
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/console/orders?*"]})  # no button is replaced under a click
        driver.get(f"{address}/learning")
        row = "//tr[td[1]/a[text()='v000003']]"
        with turned(driver):
            driver.find_element(By.XPATH, f"{row}//a[starts-with(text(), 'Roll back to it')]").click()
        assert "v000004 is retired" in text_of(driver) and stage.proxy.count(version_order) == 0
        send(driver, "/order", "Roll back to it", reason="it was better")
        assert "waits for the keeper" in text_of(driver) and stage.leaves("version_order") == 1
        send(driver, "/withdraw", "Take it back")
        assert "withdrawn" in text_of(driver)
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    assert {row.state for row in stage.proxy.rows(select(version_order.c.state))} == {"waiting", "withdrawn"} and stage.leaves(
        "version_order"
    ) == 2


def test_a_canary_gets_another_share_is_ended_and_compared_with_what_serves(console: Console) -> None:
    driver, address, stage = console
    with stage.proxy.services.database.write() as connection:
        canary = structs.replace(get_version(connection, "v000003"), state="canary")
        register_version(connection, canary, "internal-trainer", stage.proxy.clock())
    before = stage.leaves("version_order")
    with seated(driver, address, stage.proxy.key("admin", "", "")):
        driver.get(f"{address}/learning")
        send(driver, "/compare", "Compare", first="v000003", second="v000004")
        assert "v000003 and v000004" in text_of(driver) and "Entropy" in text_of(driver)
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/console/orders?*"]})  # no button is replaced under a click
        for version, deed, says, fields in (
            ("v000003", "Change its share", "v000003 answers the share that you say", {"percent": "25", "reason": "look longer"}),
            ("v000004", "End the canary", "v000004 goes on serving", {"reason": "it was rude"}),
        ):
            driver.get(f"{address}/learning")
            with turned(driver):
                driver.find_element(By.XPATH, f"//tr[td[1]/a[text()='{version}']]//a[starts-with(text(), '{deed}')]").click()
            assert says in text_of(driver)
            send(driver, "/order", deed, **fields)
            assert "waits for the keeper" in text_of(driver)
            send(driver, "/withdraw", "Take it back")
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    columns = (version_order.c.version, version_order.c.action, version_order.c.share, version_order.c.said)
    waited = stage.proxy.rows(select(*columns).where(version_order.c.state == "waiting").order_by(version_order.c.order_id))
    assert waited[-2:] == [("v000003", "canary", 0.25, "look longer"), ("v000004", "serve", 1.0, "it was rude")]
    assert stage.leaves("version_order") == before + 4
    with stage.proxy.services.database.write() as connection:
        register_version(connection, structs.replace(canary, state="retired"), "internal-trainer", stage.proxy.clock())


def test_a_sample_for_audit_is_opened_and_marked(console: Console) -> None:
    driver, address, stage = console
    digests, now_us = stage.proxy.services.digests("acme"), stage.proxy.clock()
    drawn = next(
        pair
        for pair in (exchange([user("A call that was drawn")], session="drawn", started_us=now_us) for _ in range(2000))
        if int.from_bytes(digests.of(b"sample", pair[0].event_id.encode())[:4]) % 1000 < SAMPLED_PER_MILLE
    )
    journal = stage.proxy.journal()
    asyncio.run(write(journal, drawn))
    journal.close()
    stage.proxy.drain()
    before = stage.leaves("review_mark")
    driver.get(f"{address}/review")
    with turned(driver):
        driver.find_element(By.LINK_TEXT, "Samples for audit").click()
    with turned(driver):
        driver.find_element(By.XPATH, f"//tr[td[text()='{drawn[0].event_id}']]//a").click()
    assert "A call that was drawn" in text_of(driver) and "None." in text_of(driver)
    send(driver, "/review/", "Mark it as right")
    assert "The mark is on record" in driver.find_element(By.ID, "marked").text
    marked = select(review_mark.c.verdict).where(review_mark.c.event_id == drawn[0].event_id)
    assert stage.proxy.rows(marked) == [("right",)] and stage.leaves("review_mark") == before + 1
    driver.get(f"{address}/review?why=sample")
    assert drawn[0].event_id not in text_of(driver)


def downloaded(driver: WebDriver, directory: Path, name: str, label: str) -> Path:
    """The file that a click on the link or button ``label`` brings; ``name`` is a pattern of its name."""
    directory.mkdir(exist_ok=True)
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(directory)})
    driver.find_element(By.XPATH, f"//main//*[self::a or self::button][text()='{label}']").click()
    wait(driver).until(lambda _: any(file.stat().st_size > 0 for file in directory.glob(name)))
    return next(directory.glob(name))


def test_a_list_is_taken_along_and_evidence_proves_itself_without_us(console: Console, tmp_path: Path) -> None:
    driver, address, stage = console
    driver.get(f"{address}/trajectories?agent=crawler")
    name = "headrace-trajectories-acme-filtered-by-agent-????????-20260528.jsonl"
    lines = downloaded(driver, tmp_path, name, "JSON lines").read_text().splitlines()
    assert {json.loads(line)["trajectory_id"] for line in lines} == {stage.names["hostile"], stage.names["failed"]}
    assert stage.on_record("export of trajectories") == ['{"agent":"crawler"}']
    driver.get(f"{address}/verify")
    with zipfile.ZipFile(downloaded(driver, tmp_path, "headrace-evidence-acme-20260528.zip", "Take evidence with you")) as file:
        file.extractall(tmp_path / "evidence")
    assert stage.on_record("evidence") == [""]

    def verify() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "verify.py"]
        return subprocess.run(command, cwd=tmp_path / "evidence", capture_output=True, text=True, check=False)

    done = verify()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = tmp_path / "evidence" / "events.jsonl"
    rows.write_text(rows.read_text().replace("bicycle", "tricycle", 1))
    assert verify().returncode == 1


def test_a_list_is_taken_along_as_parquet(console: Console, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    driver, address, stage = console
    driver.get(f"{address}/trajectories?session=shop-1")
    name = "headrace-trajectories-acme-filtered-by-session-????????-20260528.parquet"
    table = parquet.read_table(downloaded(driver, tmp_path, name, "Parquet"))
    assert set(table["trajectory_id"].to_pylist()) == {stage.names["orders"]}
    assert stage.on_record("export of trajectories")[-1] == '{"session":"shop-1"}'


def links(driver: WebDriver) -> list[str]:
    return [link.text for link in driver.find_elements(By.CSS_SELECTOR, "header nav a")]


def offers(driver: WebDriver, address: str, page: str) -> list[str]:
    """The buttons of the forms on ``page`` that change something."""
    driver.get(address + page)
    found = driver.find_elements(By.XPATH, "//main//form[@method='post']//button")
    return [str(button.get_attribute("textContent")) for button in found]


def refused(driver: WebDriver, address: str, *paths: str) -> None:
    """Each of ``paths`` says that this key does not open it."""
    for path in paths:
        driver.get(address + path)
        assert "Not with this key" in text_of(driver) and status_of(driver) == 403, path


def walk(driver: WebDriver) -> None:
    """Every link of the header leads to its page."""
    for name in links(driver):
        with turned(driver):
            driver.find_element(By.CSS_SELECTOR, "header nav").find_element(By.LINK_TEXT, name).click()
        assert driver.find_element(By.CSS_SELECTOR, "header nav [aria-current]").text == name


def test_a_reviewer_holds_and_marks_and_is_offered_nothing_that_an_admin_does(console: Console) -> None:
    driver, address, stage = console
    with seated(driver, address, stage.proxy.key("reviewer")):
        assert links(driver) == ["Trajectories", "Access", "Review", "Consent", "Holds", "Verify", "Learning"]
        walk(driver)
        driver.get(f"{address}/holds?scope=trajectory&target={stage.names['hostile']}")
        send(driver, "/holds", "Hold", reason="to be looked at")
        assert offers(driver, address, "/holds") == ["Hold"], "there is one in force, and no release"
        assert offers(driver, address, "/consents") == offers(driver, address, "/quarantine") == []
        reads = stage.leaves("access_log")
        refused(driver, address, "/keys", "/tenants", "/erasure", "/live", "/versions/v000003/order")
        assert stage.leaves("access_log") == reads, "what is refused was not read"
        driver.get(f"{address}/review/{stage.names['unsure']}")
        marks = stage.proxy.count(review_mark)
        send(driver, "/review/", "Mark it as false", value="Perhapsson", reason="a street")
        assert "Not with this key" in text_of(driver) and "it needs admin" in text_of(driver)
        assert stage.proxy.count(review_mark) == marks


def test_a_trainer_sees_learning_and_no_conversation(console: Console) -> None:
    driver, address, stage = console
    with seated(driver, address, stage.proxy.key("trainer")):
        assert links(driver) == ["Learning", "Live"]
        walk(driver)
        assert offers(driver, address, "/learning") == []
        reads = stage.leaves("access_log")
        refused(driver, address, "/trajectories", f"/trajectories/{stage.names['orders']}", "/access", "/review", "/consents")
        refused(driver, address, "/holds", "/verify", "/quarantine", "/vault", "/erasure", "/keys", "/versions/v000003/order")
        assert stage.leaves("access_log") == reads


def test_an_admin_of_another_tenant_finds_nothing_of_this_one(console: Console) -> None:
    driver, address, stage = console
    with seated(driver, address, stage.proxy.key("admin", "other")):
        assert len(links(driver)) == 11
        walk(driver)
        for path in (f"/trajectories/{stage.names['orders']}", f"/review/{stage.names['unsure']}"):
            driver.get(address + path)
            assert "Not found" in text_of(driver) and status_of(driver) == 404, path
        driver.get(f"{address}/keys")
        assert "other" in text_of(driver) and "acme" not in text_of(driver)
        refused(driver, address, "/versions/v000003/order")


def test_signing_out_ends_the_sitting_and_a_wrong_key_is_told(console: Console) -> None:
    driver, address, stage = console
    kept, before = driver.get_cookies(), len(stage.on_record("console"))
    driver.get(f"{address}/trajectories")
    with turned(driver):
        driver.find_element(By.XPATH, "//button[text()='Sign out']").click()
    assert stage.on_record("console")[before:] == ["sign-out"]
    for cookie in kept:
        driver.add_cookie(cookie)
    driver.get(f"{address}/trajectories")
    assert "/sign-in" in driver.current_url, "the cookie alone opens nothing"
    send(driver, "/sign-in", "Sign in", key="hr_wrong", purpose="a look")
    assert "No such key" in text_of(driver) and status_of(driver) == 401
    sign_in(driver, address, stage.proxy.key("admin"))
    assert stage.on_record("console")[before:] == ["sign-out", "sign-in"]
