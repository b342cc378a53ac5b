"""Sign-in, sittings, forms from elsewhere, and the headers of every answer."""

import pytest
from sqlalchemy import select

from dataproxy.console.sittings import IDLE_S, LONGEST_S
from dataproxy.store.keys import revoke_key
from dataproxy.store.schema import access_log
from tests.console.browse import PURPOSE
from tests.console.conftest import Stage
from tests.dataproxy.proxy import SECRET_WORD

pytestmark = pytest.mark.slow


def test_who_signs_in_lands_where_the_role_works(stage: Stage) -> None:
    landed = {role: str(stage.browser(role).answer.url.path) for role in ("reviewer", "trainer", "admin")}
    assert landed == {"reviewer": "/console/trajectories", "trainer": "/console/learning", "admin": "/console/trajectories"}


def test_agents_gateways_and_strangers_are_refused(stage: Stage) -> None:
    for key, status in ((stage.proxy.key("agent"), 403), (stage.proxy.key("gateway"), 403), ("hr_nonsense", 401)):
        browser = stage.browser(None)
        assert browser.sign_in(key).status_code == status
        assert browser.get("/trajectories").url.path == "/console/sign-in"


def test_no_sign_in_without_a_purpose(stage: Stage) -> None:
    browser = stage.browser(None)
    assert browser.sign_in(stage.proxy.key("reviewer"), "  a ").status_code == 400
    assert "why you read" in browser.text


def test_the_purpose_is_redacted_and_stands_on_every_read(stage: Stage) -> None:
    browser = stage.browser(None)
    browser.sign_in(stage.proxy.key("reviewer"), f"to see what {SECRET_WORD} did")
    browser.get(f"/trajectories/{stage.names['orders']}")
    said = access_log.c.purpose == "to see what <PASSWORD_1> did"
    reads = stage.proxy.rows(select(access_log.c.what, access_log.c.target).where(said).order_by(access_log.c.event_id))
    wanted = [("console", "sign-in"), ("trajectories", ""), ("trajectory", stage.names["orders"])]
    assert [(read.what, read.target) for read in reads] == wanted


def test_tries_are_bounded_by_address_and_come_back_with_time(stage: Stage) -> None:
    browser, other = stage.browser(None, **{"x-forwarded-for": "10.0.0.1"}), stage.browser(None, **{"x-forwarded-for": "10.0.0.2"})
    assert [browser.sign_in("hr_x").status_code for _ in range(6)] == [401] * 5 + [429]
    key = stage.proxy.key("reviewer")
    assert browser.sign_in(key).status_code == 429
    assert other.sign_in(key).status_code == 200
    stage.proxy.clock.advance(61)
    assert browser.sign_in(key).status_code == 200


def test_a_sitting_ends_by_itself_when_idle_or_old(stage: Stage) -> None:
    browser = stage.browser()
    stage.proxy.clock.advance(IDLE_S + 1)
    assert browser.get("/trajectories").url.path == "/console/sign-in"
    browser = stage.browser()
    for _ in range(LONGEST_S // (IDLE_S - 60) + 1):
        stage.proxy.clock.advance(IDLE_S - 60)
        browser.get("/quarantine")
    assert browser.answer is not None and browser.answer.url.path == "/console/sign-in"


def test_a_sitting_ends_with_its_key(stage: Stage) -> None:
    browser = stage.browser(None)
    browser.sign_in(stage.proxy.key("reviewer"))
    key_id = stage.proxy.rows(select(access_log.c.key_id).order_by(access_log.c.event_id.desc()))[0][0]
    with stage.proxy.services.database.write() as connection:
        revoke_key(connection, key_id, stage.proxy.clock())
        stage.proxy.services.keys.load(connection)
    assert browser.get("/trajectories").url.path == "/console/sign-in"


def test_signing_out_ends_the_sitting_and_not_only_the_cookie(stage: Stage) -> None:
    browser = stage.browser()
    cookie = browser.client.cookies["headrace"]
    browser.post("/sign-out")
    browser.client.cookies.set("headrace", cookie)
    assert browser.get("/trajectories").url.path == "/console/sign-in"


@pytest.mark.parametrize(("scheme", "name"), [("http", "headrace"), ("https", "__Secure-headrace")])
def test_cookies_are_out_of_reach_and_by_https_for_https_alone(stage: Stage, scheme: str, name: str) -> None:
    browser = stage.browser(None, **{"x-forwarded-proto": scheme})
    browser.client.follow_redirects = False
    form = browser.get("/sign-in").headers["set-cookie"].split(";")[0]
    answer = browser.post("/sign-in", headers={"cookie": form}, key=stage.proxy.key("reviewer"), purpose=PURPOSE)
    cookie = next(c for c in answer.headers.get_list("set-cookie") if c.startswith(f"{name}="))
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/console"} <= flags and ("secure" in flags) == (scheme == "https")


def test_forms_from_elsewhere_change_nothing(stage: Stage) -> None:
    browser = stage.browser("admin")
    browser.get("/holds")
    hold = {"tenant": "acme", "scope": "tenant", "target": "", "reason": "r"}
    assert browser.post("/holds", csrf="forged", **hold).status_code == 403
    browser.get("/holds")
    assert browser.post("/holds", headers={"origin": "http://evil.test"}, **hold).status_code == 403
    browser.get("/holds")
    assert browser.post("/holds", headers={"sec-fetch-site": "cross-site"}, **hold).status_code == 403
    other = stage.browser("admin")
    other.get("/holds")
    token = other.page.split('name="csrf" value="')[1].split('"')[0]
    assert browser.post("/holds", csrf=token, **hold).status_code == 403
    assert "Nothing is on hold" in browser.get("/holds").text


def test_every_answer_forbids_what_a_page_does_not_need(stage: Stage) -> None:
    browser = stage.browser()
    for path in ("/trajectories", "/nothing", "/sign-in", "/assets/console.js"):
        headers = browser.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'" and policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert ("no-store" in headers["cache-control"]) == ("/assets/" not in path)


def test_no_page_has_a_script_or_style_of_its_own_or_loads_from_elsewhere(stage: Stage) -> None:
    browser = stage.browser("admin")
    for path in ("/trajectories", f"/trajectories/{stage.names['orders']}", "/learning", "/live", "/verify", "/keys"):
        page = browser.get(path).text
        assert "<script>" not in page and " style=" not in page and " onclick=" not in page
        assert 'src="http' not in page and 'href="http' not in page


def test_a_form_that_is_not_taken_says_what_happened_and_what_to_do(stage: Stage) -> None:
    browser = stage.browser("admin")
    hold = {"tenant": "acme", "scope": "tenant", "target": "", "reason": "r"}
    browser.get("/holds")
    assert browser.post("/holds", csrf="of-an-earlier-sitting", **hold).status_code == 403
    assert "<h1>This form is out of date</h1>" in browser.page and "Not with this key" not in browser.text
    assert "Nothing was done" in browser.text and "load that page again, and send the form from there" in browser.text
    browser.get("/holds")
    assert browser.post("/holds", headers={"origin": "http://evil.test"}, **hold).status_code == 403
    assert "<h1>This form came from another site</h1>" in browser.page and "Not with this key" not in browser.text
    assert "Nothing was done" in browser.text and "Open the page of this console" in browser.text
