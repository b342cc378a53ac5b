"""The console's pages asked by one tenant about another's things: each answer is that for a name that nobody ever had."""

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from dataproxy.console.app import PAGES
from tests.console.browse import Browser, browsing
from tests.dataproxy.api.served import serve
from tests.dataproxy.isolation.attempts import (
    AGENT,
    BATCH,
    EVENT,
    HOLD,
    KEY,
    NAME,
    OWN_TENANT,
    SESSION,
    TENANT,
    TRAJECTORY,
    VIEW,
    Attempt,
)  # fmt: skip
from tests.dataproxy.isolation.tenants import CANARY, OURS, everything_of, ghost, put, settle
from tests.dataproxy.proxy import Proxy

pytestmark = pytest.mark.slow
_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|[0-9a-f]{8}-[0-9a-f-]{27}|[\w-]{30,}")

_HELD = {"tenant": OWN_TENANT, "scope": "trajectory", "target": NAME, "reason": "r"}
ATTEMPTS = (
    Attempt("GET", f"/trajectories?session={NAME}", "reviewer", (SESSION,), route="/trajectories"),
    Attempt("GET", f"/trajectories?text={NAME}", "reviewer", (TRAJECTORY, EVENT), route="/trajectories"),
    Attempt("GET", f"/trajectories/{NAME}", "reviewer", (TRAJECTORY, EVENT), route="/trajectories/{trajectory_id}"),
    Attempt("GET", f"/trajectories/{NAME}?tenant=other", "reviewer", (TRAJECTORY,), route="/trajectories/{trajectory_id}"),
    Attempt("GET", f"/trajectories/{NAME}/proof", "reviewer", (TRAJECTORY,), route="/trajectories/{trajectory_id}/proof"),
    Attempt("GET", f"/events/{NAME}/tokens", "reviewer", (EVENT,), route="/events/{event_id}/tokens"),
    Attempt("GET", f"/exports/jsonl?session={NAME}", "reviewer", (SESSION,), route="/exports/{form}"),
    Attempt("GET", f"/exports/jsonl?agent={NAME}", "admin", (AGENT,), route="/exports/{form}"),
    Attempt("POST", f"/views/{NAME}/remove", "reviewer", (VIEW,), route="/views/{view_id}/remove"),
    Attempt("GET", f"/access?target={NAME}&what=trajectory", "reviewer", (TRAJECTORY,), route="/access"),
    Attempt("GET", f"/review/{NAME}", "reviewer", (EVENT,), route="/review/{event_id}"),
    Attempt("POST", f"/review/{NAME}", "admin", (EVENT,), {"verdict": "right", "tenant": "other"}, route="/review/{event_id}"),
    Attempt("POST", "/quarantine/retry", "admin", (EVENT,), {"event_id": NAME}),
    Attempt("POST", "/vault", "admin", (AGENT,), {"agent": NAME, "days": "1", "reason": "r"}),
    Attempt("POST", f"/vault/{NAME}/approve", "admin", (HOLD,), {"reason": "r"}, route="/vault/{approval_id}/{action}"),
    Attempt("POST", "/holds", "reviewer", (TRAJECTORY,), _HELD),
    Attempt("POST", f"/holds/{NAME}/release", "admin", (HOLD,), {"reason": "over"}, route="/holds/{hold_id}/release"),
    Attempt("POST", "/erasure", "admin", (TRAJECTORY,), _HELD),
    Attempt("POST", "/retention", "admin", (AGENT,), {"agent": NAME, "name": "short", "days": "1", "reason": "r"}),
    Attempt("POST", "/consents", "admin", (AGENT,), {"agent": NAME, "recording": "yes", "training": "no", "reason": "r"}),
    Attempt("POST", f"/keys/{NAME}/revoke", "admin", (KEY,), route="/keys/{key_id}/revoke"),
    Attempt("GET", f"/evidence?trajectory={NAME}", "reviewer", (TRAJECTORY,), route="/evidence"),
    Attempt("GET", f"/evidence?tenant={NAME}", "admin", (TENANT,), route="/evidence"),
    Attempt("GET", f"/batches/{NAME}", "reviewer", (BATCH,), route="/batches/{batch_id}"),
)
NAME_NOTHING = {
    *("/sign-in", "/sign-out", "/views", "/review", "/quarantine", "/verify", "/tenants", "/keys", "/learning"),
    *("/compare", "/versions/{name}", "/live", "/versions/{name}/order", "/orders", "/orders/{order_id}/withdraw"),
}
"""Routes that name nothing of a tenant's: versions are everybody's."""


def answer(browser: Browser, attempt: Attempt, name: str) -> tuple[int, str]:
    """Status and text, without the name itself and what every answer has anew."""
    path = put(attempt.path, name=name)
    if attempt.method == "POST":
        browser.get("/terms")
        got = browser.post(path, **{key: str(value) for key, value in put(attempt.body or {}, name=name).items()})
    else:
        got = browser.get(path)
    return got.status_code, _TIMES.sub("…", got.text.replace(name, "NAME"))


async def test_no_page_tells_a_foreign_name_from_one_that_was_never_given(proxy: Proxy, tmp_path: Path) -> None:
    theirs = await settle(proxy)
    proxy.services.checkpoints.cut()  # a proof cuts one of every log that has grown
    before = everything_of(proxy, "other")
    with serve(proxy.services, tmp_path / "api.sock") as path, browsing(proxy.services, path) as browser:
        for role in ("reviewer", "admin"):
            browser.sign_in(proxy.key(role, OURS))
            for attempt in (one for one in ATTEMPTS if one.role == role):
                for kind in attempt.kinds:
                    name = theirs[kind][0]
                    foreign, nobodys = answer(browser, attempt, name), answer(browser, attempt, ghost(name))
                    assert foreign == nobodys, (attempt, kind)
                    assert CANARY not in foreign[1]
    after = everything_of(proxy, "other")
    assert after == before


def test_every_route_of_the_console_is_attempted() -> None:
    routes = {route.path for pages in PAGES for route in pages.router.routes if isinstance(route, APIRoute)}
    tried = {attempt.route or attempt.path for attempt in ATTEMPTS}
    assert routes - NAME_NOTHING - tried == set() and tried <= routes
