"""The Verify page between an audit's start and its verdict."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event, func, select

from dataproxy.store.schema import log_leaf
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow
_PATIENCE_S = 120


@contextmanager
def audits_stop_after_a_page() -> Iterator[threading.Event]:
    """The console's next audit waits before it asks for its second page of leaves, until the event that this gives is set."""
    reached, go_on = threading.Event(), threading.Event()
    pages = 0

    def hold(_: object, __: object, statement: str, ___: object, ____: object, _____: object) -> None:
        nonlocal pages
        if threading.current_thread().name == "console-audit" and "log_leaf.leaf_index > " in statement:
            pages += 1
            if pages == 2:
                reached.set()
                go_on.wait(_PATIENCE_S)

    event.listen(Engine, "before_cursor_execute", hold)
    try:
        yield reached
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name == "console-audit":
                thread.join(_PATIENCE_S)
        event.remove(Engine, "before_cursor_execute", hold)


def test_progress_is_shown_until_the_verdict(stage: Stage) -> None:
    """An operator's audit goes through one log after the other: that of the operator itself is done, a tenant's is not."""
    operator = stage.browser("admin", "")
    operator.get("/verify")
    assert 'id="audit"' in operator.page and "<progress" not in operator.page and "hx-trigger" not in operator.page
    with audits_stop_after_a_page() as reached:
        operator.post("/verify")
        assert reached.wait(_PATIENCE_S)
        leaves = dict(stage.proxy.rows(select(log_leaf.c.tenant, func.count()).group_by(log_leaf.c.tenant)))
        piece = operator.get("/verify", **{"hx-request": "true"}).text
        assert piece.startswith('<div id="audit"') and 'hx-trigger="every 1s"' in piece and 'id="verdict"' not in piece
        ((total, done),) = [(int(most), int(at)) for most, at in re.findall(r'<progress max="(\d+)" value="(\d+)">', piece)]
        assert 0 < done <= leaves[""] and total - done == sum(leaves.values()) - leaves[""]  # to look at it left a leaf, too
        assert f"{done:,} of {total:,} leaves" in piece
        other = stage.browser()
        assert "<progress" not in other.get("/verify").text, "another's audit is not this one's"
        operator.get("/verify")
        running = operator.post("/verify")
        assert "<progress" in running.text, "a second click starts no second audit"
    verdict = operator.get("/verify", **{"hx-request": "true"}).text
    assert f"Nothing was changed: {total:,} leaves of {len(leaves)} logs" in verdict
    assert "<progress" not in verdict and "hx-trigger" not in verdict
