"""Each action with its effect in the store and in the log."""

import json
import re

import pytest
from msgspec import structs
from sqlalchemy import func, select

from dataproxy.api.audit_routes import audit_steps
from dataproxy.client.order_types import OrderAsk
from dataproxy.client.review_types import AuditReport
from dataproxy.console.order_pages import concerns
from dataproxy.store.schema import api_key, consent, content, erasure, event, legal_hold, tombstone, vault_approval, version_order
from dataproxy.store.scope import EVERYBODY
from dataproxy.store.version_orders import ask_order, move_order
from dataproxy.store.versions import get_version, register_version
from tests.console.conftest import Stage
from tests.console.gateway_metrics import answering

pytestmark = pytest.mark.slow


def test_a_hold_is_put_and_released_on_record(stage: Stage) -> None:
    reviewer, admin = stage.browser(), stage.browser("admin")
    before = stage.leaves("legal_hold")
    reviewer.get(f"/holds?scope=trajectory&target={stage.names['hostile']}")
    reviewer.post("/holds", tenant="acme", scope="trajectory", target=stage.names["hostile"], reason="a claim")
    assert "in force and in the log" in reviewer.text and stage.leaves("legal_hold") == before + 1
    hold_id = stage.proxy.rows(select(legal_hold.c.hold_id).where(legal_hold.c.target == stage.names["hostile"]))[0][0]
    assert reviewer.post(f"/holds/{hold_id}/release", reason="no more").status_code == 403
    admin.get("/erasure")
    held = admin.post("/erasure", tenant="acme", scope="trajectory", target=stage.names["hostile"], reason="r")
    assert held.status_code == 400 and "hold" in admin.text
    admin.get("/holds")
    admin.post(f"/holds/{hold_id}/release", reason="settled")
    assert "released" in admin.text and stage.leaves("legal_hold") == before + 2


def test_a_consent_is_put_on_record_by_an_admin_alone(stage: Stage) -> None:
    fields = {"tenant": "acme", "agent": "crawler", "session": "", "recording": "yes", "training": "no", "reason": "withdrawn"}
    reviewer, admin = stage.browser(), stage.browser("admin")
    reviewer.get("/consents")
    assert reviewer.post("/consents", **fields).status_code == 403
    admin.get("/consents")
    admin.post("/consents", **fields)
    assert "on record" in admin.text and "withdrawn" in admin.text
    assert stage.proxy.rows(select(consent.c.training).where(consent.c.reason == "withdrawn")) == [(False,)]


def test_keys_are_made_shown_once_and_revoked(stage: Stage) -> None:
    admin = stage.browser("admin")
    admin.get("/keys")
    admin.post("/keys", tenant="acme", role="reviewer", agent="")
    made = re.findall(r"hr_[0-9A-Za-z_-]{20,}", admin.page)
    assert len(made) == 1 and stage.proxy.services.keys.find(made[0], stage.proxy.clock()) is not None
    key_id = re.findall(r'<p class="id faint">(key-[^<]+)', admin.page)[0]
    assert made[0] not in admin.get("/keys").text
    admin.post(f"/keys/{key_id}/revoke")
    assert stage.proxy.services.keys.find(made[0], stage.proxy.clock()) is None
    assert stage.proxy.rows(select(api_key.c.revoked_us).where(api_key.c.key_id == key_id))[0][0] is not None
    admin.post("/keys", tenant="other", role="admin", agent="")
    assert stage.proxy.rows(select(api_key).where(api_key.c.tenant == "other")) == []  # a tenant's admin makes its own


def test_retention_is_put_on_record_by_an_admin_alone(stage: Stage) -> None:
    fields = {"tenant": "acme", "agent": "crawler", "name": "short", "days": "30", "reason": "contract"}
    reviewer, admin = stage.browser(), stage.browser("admin")
    reviewer.get("/consents")
    assert reviewer.post("/retention", **fields).status_code == 403
    admin.get("/consents")
    before = stage.leaves("retention_policy")
    assert admin.post("/retention", **fields | {"days": "soon"}).status_code == 400
    admin.get("/consents")
    admin.post("/retention", **fields)
    assert "30 days" in admin.text and stage.leaves("retention_policy") == before + 1


def test_the_vault_is_asked_for_by_one_and_decided_by_another(stage: Stage) -> None:
    one, another = stage.browser(), stage.browser()
    one.get("/vault")
    one.post("/vault", tenant="acme", agent="triage", days="7", reason="exact ids for the next run")
    assert "another key decides" in one.text
    approval_id = stage.proxy.rows(select(vault_approval.c.approval_id))[0][0]
    assert one.post(f"/vault/{approval_id}/approve", reason="I say so").status_code in (400, 403)
    assert "Approve" in another.get("/vault").text
    another.post(f"/vault/{approval_id}/approve", reason="agreed with legal")
    assert "in force and in the log" in another.text and "approved" in another.text
    another.post(f"/vault/{approval_id}/revoke", reason="no longer needed")
    assert "revoked" in another.text and stage.leaves("vault_approval") >= 3
    assert another.post(f"/vault/{approval_id}/burn", reason="x").status_code == 404


def test_an_uncertain_redaction_is_judged_and_leaves_the_queue(stage: Stage) -> None:
    browser, admin = stage.browser(), stage.browser("admin")
    browser.get("/review")
    (path,) = re.findall(r'href="/console(/review/[^"?]+)', browser.page)
    assert "PERSON 0.60" in browser.text
    browser.get(path)
    assert "<PERSON_1>" in browser.text and "sure by 0.60" in browser.text
    before = stage.leaves("review_mark")
    browser.post(
        path, verdict="missed", kind="ORDER_NUMBER", pattern="order [0-9]{2}", reason="numbers of orders are personal here"
    )
    assert "redaction policy 1 holds" in browser.text and stage.leaves("review_mark") == before + 1
    assert "Nothing waits here" in browser.get("/review").text
    span = {"verdict": "false", "kind": "PERSON", "start": "19", "surrogate": "<PERSON_1>"}
    browser.get(path)
    assert browser.post(path, value="Perhapsson", reason="a street", **span).status_code == 403
    admin.get(path)
    admin.post(path, value="Perhapsson", reason="a street", **span)
    assert "redaction policy 2 holds" in admin.text and stage.leaves("review_mark") == before + 2
    assert stage.browser("reviewer", "other").get(path).status_code == 404
    assert browser.get("/review?why=sample").status_code == 200 and browser.get("/review?why=x").status_code == 400


def test_the_quarantine_is_tried_again_by_an_admin_alone(stage: Stage) -> None:
    reviewer, admin = stage.browser(), stage.browser("admin")
    assert "Try all of them" not in reviewer.get("/quarantine").text
    assert reviewer.post("/quarantine/retry").status_code == 403
    admin.get("/quarantine")
    admin.post("/quarantine/retry")
    assert "0 can be governed now" in admin.text and "1 cannot yet" in admin.text


def test_evidence_is_a_zip_named_by_what_it_holds(stage: Stage) -> None:
    browser, name = stage.browser(), stage.names["orders"]
    for asked, what in ((f"?trajectory={name}", f"-trajectory-{name}"), ("?session=shop-1", "-session-shop-1"), ("", "")):
        answer = browser.get(f"/evidence{asked}")
        assert answer.content[:2] == b"PK" and b"verify.py" in answer.content
        assert answer.headers["content-disposition"] == f'attachment; filename="headrace-evidence-acme{what}-20260528.zip"'


def test_erasure_shows_what_would_go_and_erases_only_what_is_confirmed(stage: Stage) -> None:
    admin, name = stage.browser("admin"), stage.names["orders"]
    fields = {"tenant": "acme", "scope": "trajectory", "target": name, "reason": "asked for"}
    num_events = stage.proxy.rows(select(func.count()).select_from(event).where(event.c.trajectory_id == name))[0][0]
    num_contents = stage.proxy.count(content)
    admin.get("/erasure")
    admin.post("/erasure", **fields)
    assert "What would go" in admin.text and "v000004: the weights of these versions stay" in admin.text
    admin.post("/erasure", confirm="9", **fields)
    assert f"Type {num_events}" in admin.text and stage.proxy.count(erasure) == 0 and stage.proxy.count(content) == num_contents
    admin.post("/erasure", confirm=str(num_events), **fields)
    assert f"Erased: {num_events} events" in admin.text
    assert stage.proxy.count(erasure) == 1 and stage.proxy.count(content) < num_contents
    assert stage.proxy.rows(select(func.count()).select_from(tombstone).where(tombstone.c.kind == "event"))[0][0] == num_events
    admin.get(f"/trajectories/{name}")
    assert "its content was erased" in admin.text and "bicycle" not in admin.text
    assert admin.text.count("asked for with the trajectory; nothing of it trains any more") == num_events
    assert "Its content was erased: nothing of it trains any more." in admin.text and "Erase it" not in admin.text
    assert "calls of the model may train" not in admin.text and "before: eligible" in admin.text
    admin.get(f"/trajectories/{name}/proof")
    assert "erased" in admin.text
    report = next(step for step in audit_steps(stage.proxy.services, "acme", EVERYBODY) if isinstance(step, AuditReport))
    assert report.ok and report.erased


def test_an_order_needs_the_right_a_reason_and_its_own_pages_form(stage: Stage) -> None:
    admin, trainer, reviewer = stage.browser("admin", ""), stage.browser("trainer", ""), stage.browser("reviewer", "")
    asked = {"action": "serve", "reason": "it was better"}
    reviewer.get("/learning")
    assert "Roll back to it" not in reviewer.text and reviewer.get("/versions/v000003/order").status_code == 403
    reviewer.get("/versions/v000003")
    assert reviewer.post("/versions/v000003/order", **asked).status_code == 403
    for tenants in ("admin", "trainer"):
        own = stage.browser(tenants)
        assert own.get("/versions/v000003/order").status_code == 403 and "Roll back" not in own.get("/learning").text
        assert own.post("/versions/v000003/order", **asked).status_code == 403
    assert "v000003 answers every call from then on. v000004 is retired" in trainer.get("/versions/v000003/order").text
    assert "It concerns " in trainer.text and " in the last hour " in trainer.text
    assert admin.get("/versions/v000004/order").status_code == 400 and admin.get("/versions/v000099/order").status_code == 404
    admin.get("/versions/v000003/order")
    assert admin.post("/versions/v000003/order", csrf="stolen", **asked).status_code == 403
    admin.get("/versions/v000003/order")
    assert admin.post("/versions/v000003/order", action="serve", reason=" ").status_code == 400
    admin.get("/versions/v000003/order")
    assert admin.post("/versions/v000003/order", action="canary", reason="r", percent="nan").status_code == 400
    assert stage.proxy.count(version_order) == 0
    trainer.get("/versions/v000003/order")
    trainer.post("/versions/v000003/order", **asked)
    assert "it was better" in trainer.text and "waits for the keeper" in trainer.text and stage.leaves("version_order") == 1
    for path in ("/learning", "/versions/v000001"):
        assert "The order about v000003 is open: another can be given once" in admin.get(path).text, path
        assert "/order?action=" not in admin.page, path
    assert "The order about v000003 is open still" in admin.get("/versions/v000001/order").text
    order_id = stage.proxy.rows(select(version_order.c.order_id))[0][0]
    admin.post(f"/orders/{order_id}/withdraw")
    assert "withdrawn" in admin.text and stage.leaves("version_order") == 2
    assert "is open" not in admin.get("/learning").text and "/versions/v000001/order?action=serve" in admin.page
    assert admin.get(f"/orders?watching={order_id}").headers["hx-refresh"] == "true"


@pytest.mark.parametrize(
    ("num", "says"),
    [
        ((0, 0), "no tenant yet; in the last hour 0 conversations began."),
        ((1, 1), "the one tenant; in the last hour 1 conversation began."),
        ((2, 10_000), "all 2 tenants; in the last hour 10,000+ conversations began."),
    ],
)
def test_whom_an_order_concerns_is_said_in_the_right_number(num: tuple[int, int], says: str) -> None:
    assert concerns(*num) == f"It concerns {says}"


def test_a_share_is_offered_where_a_second_worker_is_or_nothing_is_known_of_workers(stage: Stage) -> None:
    trainer = stage.browser("trainer", "")
    share = "/versions/v000001/order?action=canary"
    assert share in trainer.get("/learning").text and trainer.get(share).status_code == 200
    stack = stage.proxy.services.data_dir / "run" / "stack.json"
    stack.parent.mkdir(exist_ok=True)
    workers = ["w1"]
    with answering(lambda: "".join(f'headrace_gateway_worker_health{{worker="{one}"}} 0\n' for one in workers)) as address:
        stack.write_text(json.dumps({"gateway": address}))
        for path in ("/learning", "/versions/v000001"):
            assert "needs two workers, and the gateway has one" in trainer.get(path).text
            assert share not in trainer.page and "/versions/v000001/order?action=serve" in trainer.page
        assert trainer.get(share).status_code == 400 and "needs two workers" in trainer.text
        workers.append("w2")
        assert share in trainer.get("/learning").text and "two workers" not in trainer.text
    stack.unlink()


def test_what_became_of_a_version_names_who_ordered_it_and_why(stage: Stage) -> None:
    operator, now_us = stage.browser("admin", ""), stage.proxy.clock()
    with stage.proxy.services.database.write() as connection:
        order = ask_order(connection, OrderAsk("v000002", "serve", "v000004 was rude"), "key-on-duty", now_us)
        move_order(connection, order.order_id, "begin", "", "internal-trainer", now_us)
        version = structs.replace(get_version(connection, "v000002"), state="serving")
        register_version(connection, version, "internal-trainer", now_us)
        move_order(connection, order.order_id, "done", "", "internal-trainer", now_us)
    told = f"ordered by key-on-duty, “v000004 was rude” {order.order_id}, carried out by internal-trainer"
    for path, title, num in (("/learning", "What became of versions", 2), ("/versions/v000002", "What became of it", 1)):
        operator.get(path)
        became = operator.text.split(title)[1]
        assert became.count(told) == num and "no order" in became
