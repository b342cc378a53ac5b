"""Every page that somebody opens is on record before it is shown, and why; what a page asks again by itself once a sitting."""

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select

from dataproxy.console.app import PAGES, create_console
from dataproxy.store.schema import event
from tests.console.browse import PURPOSE, Browser
from tests.console.conftest import Stage
from tests.console.story import BATCH
from tests.dataproxy.api.test_on_record import no_reads_kept, reads

pytestmark = pytest.mark.slow

PAGE = ("page",)
OPENED: dict[str, tuple[str, tuple[str, ...]]] = {
    "/access": ("", ("access_log",)),
    "/batches/{batch_id}": (f"/batches/{BATCH}", ("batch",)),
    "/compare": ("/compare?first=v000003&second=v000004", ("version",)),
    "/consents": ("", ("consents", "retention")),
    "/erasure": ("", PAGE),
    "/events/{event_id}/tokens": ("/events/{event}/tokens", ("tokens",)),
    "/evidence": ("/evidence?trajectory={orders}&tenant=acme", ("evidence",)),
    "/exports/{form}": ("/exports/jsonl?agent=crawler", ("export of trajectories",)),
    "/holds": ("", ("holds",)),
    "/keys": ("", ("keys",)),
    "/learning": ("", PAGE),
    "/live": ("", PAGE),
    "/orders": ("", PAGE),
    "/quarantine": ("", ("quarantine",)),
    "/review": ("", ("review",)),
    "/review/{event_id}": ("/review/{unsure}", ("event",)),
    "/tenants": ("", ("tenants",)),
    "/terms": ("", PAGE),
    "/trajectories": ("", ("trajectories",)),
    "/trajectories/{trajectory_id}": ("/trajectories/{orders}", ("trajectory",)),
    "/trajectories/{trajectory_id}/proof": ("/trajectories/{orders}/proof", ("proof",)),
    "/vault": ("", ("approvals",)),
    "/verify": ("", PAGE),
    "/versions/{name}": ("/versions/v000004", ("version",)),
    "/versions/{name}/order": ("/versions/v000003/order", PAGE),
}
"""Route → (an address of it, if it is another; what is on record of it)."""
OPERATORS = {"/batches/{batch_id}": "acme", "/orders": "", "/versions/{name}/order": ""}
"""Routes that an operator asks, and in whose log that is."""
NOBODYS = {"/", "/sign-in"}
"""The one leads on to a page, the other is shown without a key."""


def whats(stage: Stage, tenant: str, before: int) -> tuple[str, ...]:
    """What came into the log of ``tenant`` since there were ``before``; each with the sitting's purpose."""
    found = reads(stage.proxy, tenant)[before:]
    assert all(why == PURPOSE for _, _, why in found)
    return tuple(what for what, _, _ in found)


def test_every_page_is_walked_here() -> None:
    routers = [*create_console(None).routes, *(route for pages in PAGES for route in pages.router.routes)]  # type: ignore[arg-type]
    gets = {route.path for route in routers if isinstance(route, APIRoute) and "GET" in route.methods}
    assert gets == OPENED.keys() | NOBODYS


def test_each_page_leaves_what_it_shows_on_record_and_none_begins_without(stage: Stage) -> None:
    (event_id,) = stage.proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == stage.names["orders"]).limit(1))[0]
    admin, operator = stage.browser("admin"), stage.browser("admin", "")

    def open_it(route: str) -> tuple[Browser, str, int]:
        browser, tenant = (operator if route in OPERATORS else admin), OPERATORS.get(route, "acme")
        before = len(reads(stage.proxy, tenant))
        browser.get((OPENED[route][0] or route).format(event=event_id, **stage.names), connection="close")
        return browser, tenant, before

    with no_reads_kept(stage.proxy):
        for route in OPENED:
            answer = open_it(route)[0].answer
            assert answer is not None and answer.status_code == 500 and len(answer.content) < 100, route
    for route, (_, expected) in OPENED.items():
        browser, tenant, before = open_it(route)
        assert browser.answer is not None and browser.answer.status_code == 200, route
        assert whats(stage, tenant, before) == expected, route
    assert ("page", "/console/learning", PURPOSE) in reads(stage.proxy, "acme")


def test_what_a_page_asks_again_by_itself_is_on_record_once_a_sitting(stage: Stage) -> None:
    for _ in range(2):
        browser, before = stage.browser("admin"), len(reads(stage.proxy, "acme"))
        for _ in range(3):
            browser.get("/live", **{"hx-request": "true"})
        assert whats(stage, "acme", before) == PAGE, "whoever sends the header of a page's own question is on record all the same"
    browser.get("/live")
    assert whats(stage, "acme", before) == (*PAGE, *PAGE)
    before = len(reads(stage.proxy, "acme"))
    for _ in range(2):
        browser.get(f"/review/{stage.names['unsure']}", **{"hx-request": "true"})
    assert whats(stage, "acme", before) == ("event", "event")


def test_forms_that_are_answered_by_what_is_stored_put_it_on_record(stage: Stage) -> None:
    admin, name = stage.browser("admin"), stage.names["orders"]

    def sent(path: str, **fields: str) -> list[tuple[str, str, str]]:
        admin.get("/terms")
        before = len(reads(stage.proxy, "acme"))
        assert admin.post(path, **fields).status_code == 200
        return reads(stage.proxy, "acme")[before:]

    foreseen = sent("/erasure", tenant="acme", scope="trajectory", target=name, reason="asked to")
    assert foreseen == [("erasure preview", f"trajectory:{name}", PURPOSE)]
    made, listed = sent("/keys", tenant="acme", role="reviewer", agent="")
    assert (made[0], listed) == ("key made", ("keys", "", PURPOSE))
    assert [what for what, _, _ in sent("/quarantine/retry")] == ["quarantine", "quarantine"]
    assert sent(f"/review/{stage.names['unsure']}", verdict="right") == [("event", stage.names["unsure"], PURPOSE)]
    kept, shown = sent("/views", title="all of it", agent="crawler")
    assert kept[0] == "view kept" and shown[0] == "trajectories"
    assert sent(f"/views/{kept[1]}/remove")[0][:2] == ("view removed", kept[1])
