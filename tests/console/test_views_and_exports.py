"""Saved views and exports of what a list shows."""

import io
import json
import re

import pytest
from sqlalchemy import func, select

from dataproxy.store.schema import access_log, event, saved_view
from tests.console.browse import Browser
from tests.console.conftest import Stage
from tests.console.story import HOSTILE

pytestmark = pytest.mark.slow


def test_filters_are_kept_under_a_name_for_everybody_and_taken_away(stage: Stage) -> None:
    one, another = stage.browser(), stage.browser("admin")
    one.get("/trajectories?agent=crawler&error=500&eligible=no&since=2020-01-01")
    one.post("/views", title=f"broken crawls {HOSTILE[:20]}", agent="crawler", error="500", eligible="no", since="2020-01-01")
    assert "The view is kept" in one.text and "<script>docu" not in one.page
    another.get("/trajectories")
    (path,) = re.findall(r'<a class="chip" href="/console(/trajectories\?[^"]+)">broken crawls', another.page)
    another.get(path.replace("&amp;", "&"))
    shown = set(re.findall(r'href="/console/trajectories/([^"?/]+)"', another.page))
    assert shown == {stage.names["failed"]} and 'value="2020-01-01T00:00:00+00:00"' in another.page
    (view_id,) = re.findall(r"/console/views/([^/]+)/remove", another.page)
    assert another.post(f"/views/{view_id}/remove").status_code == 200 and stage.proxy.count(saved_view) == 0
    assert another.post(f"/views/{view_id}/remove").status_code == 404


def test_a_text_that_redaction_would_take_out_is_not_kept(stage: Stage) -> None:
    browser = stage.browser()
    browser.get("/trajectories?text=hunter2")
    browser.post("/views", title="the word hunter2", text="hunter2")
    assert "hunter2" not in str(stage.proxy.rows(select(saved_view)))
    (view_id,) = re.findall(r"/console/views/([^/]+)/remove", browser.page)
    browser.post(f"/views/{view_id}/remove")


def test_a_view_of_another_tenant_is_one_that_was_never_there(stage: Stage) -> None:
    browser, stranger = stage.browser(), stage.browser("reviewer", "other")
    browser.get("/trajectories?agent=crawler")
    browser.post("/views", title="mine", agent="crawler")
    view_id = stage.proxy.rows(select(saved_view.c.view_id))[0][0]
    assert "mine" not in stranger.get("/trajectories?agent=x").text.split("Text", 1)[0]
    answers = [stranger.post(f"/views/{name}/remove") for name in (view_id, "view-0")]
    assert [answer.status_code for answer in answers] == [404, 404] and stage.proxy.count(saved_view) == 1
    browser.post(f"/views/{view_id}/remove")


def test_an_export_holds_what_the_list_shows_and_is_on_record(stage: Stage) -> None:
    browser = stage.browser()
    lines = [json.loads(line) for line in browser.get("/exports/jsonl?agent=crawler").text.splitlines()]
    assert {line["trajectory_id"] for line in lines} == {stage.names["hostile"], stage.names["failed"]}
    assert all(one["event"]["trajectory_id"] == line["trajectory_id"] for line in lines for one in line["events"])
    query = select(access_log.c.target).where(access_log.c.what == "export of trajectories")
    assert stage.proxy.rows(query)[-1][0] == '{"agent":"crawler"}'
    assert browser.get("/exports/xml").status_code == 400
    assert stage.browser("trainer").get("/exports/jsonl").status_code == 403
    assert stage.browser("reviewer", "other").get(f"/exports/jsonl?session={stage.names['orders']}").text == ""


def test_an_export_is_named_by_whose_it_is_and_by_what_it_was_filtered(stage: Stage) -> None:
    browser, operator = stage.browser(), stage.browser("admin", "")

    def name(query: str, of: Browser = browser) -> str:
        header = of.get(f"/exports/jsonl{query}").headers["content-disposition"]
        return header.removeprefix('attachment; filename="headrace-trajectories-').removesuffix('"')

    assert name("") == "acme-20260528.jsonl" and name("", operator) == "all-tenants-20260528.jsonl"
    filtered = name("?agent=crawler&error=500")
    assert re.fullmatch(r"acme-filtered-by-agent-error-[0-9a-f]{8}-20260528\.jsonl", filtered)
    assert name("?error=500&agent=crawler&text=") == filtered  # whenever the same is asked for
    assert len({filtered, name("?agent=triage&error=500"), name("?agent=crawler&error=500", operator)}) == 3
    assert "crawler" not in filtered


def test_parquet_has_a_row_an_event(stage: Stage) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    answer = stage.browser().get("/exports/parquet?session=shop-1")
    table = parquet.read_table(io.BytesIO(answer.content))
    assert set(table["trajectory_id"].to_pylist()) == {stage.names["orders"]} and set(table["reward"].to_pylist()) == {1.5}
    assert (
        table.num_rows
        == stage.proxy.rows(select(func.count()).select_from(event).where(event.c.trajectory_id == stage.names["orders"]))[0][0]
    )
