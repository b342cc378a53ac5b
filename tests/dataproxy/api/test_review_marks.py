"""The queue of reviews: what is uncertain and what is drawn; a mark that changes the policy, and what it may not do."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from atdp.events import Span
from dataproxy.api.review_routes import mark_event, page_of_review
from dataproxy.client.types import KeyInfo
from dataproxy.client.vault_types import ReviewMark
from dataproxy.errors import NotAllowed, NotFound, Refused
from dataproxy.redact import InvalidPolicy
from dataproxy.redact.shape import pattern_of
from dataproxy.store import review_queue
from dataproxy.store.redaction import current_policy
from dataproxy.store.schema import access_log, event, review_mark
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.ledger.lived_in import audited, copy
from tests.dataproxy.proxy import SECRET_WORD, Proxy, WordRedactor

REVIEWER, ADMIN, OTHER = (
    KeyInfo(f"key-{role}", tenant, "", role, [], 0, None, None)  # type: ignore[arg-type]
    for role, tenant in (("reviewer", "acme"), ("admin", "acme"), ("reviewer", "other"))
)


async def calls(proxy: Proxy, *texts: str) -> list[str]:
    journal = proxy.journal()
    made = [exchange([user(text)], "ok", prompt=[1, n]) for n, text in enumerate(texts)]
    await write(journal, *made)
    journal.close()
    proxy.drain()
    return [asked.event_id for asked, _ in made]


@pytest.fixture
def unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' redactor is sure of its word; here it is not."""
    redact = WordRedactor.redact_exchange

    def less(self: WordRedactor, given):  # type: ignore[no-untyped-def]
        made = redact(self, given)
        made.spans[:] = [Span(s.kind, s.detector, 0.7, s.path, s.start, s.end, s.surrogate) for s in made.spans]
        return made

    monkeypatch.setattr(WordRedactor, "redact_exchange", less)


@pytest.mark.usefixtures("unsure")
async def test_what_is_uncertain_waits_until_it_is_marked(proxy: Proxy) -> None:
    _, second, third = await calls(proxy, "plain", f"my {SECRET_WORD}", f"another {SECRET_WORD}")
    page = page_of_review(proxy.services, REVIEWER, "low_confidence", "", 50, "")
    assert [(row.event_id, [span.surrogate for span in row.spans]) for row in page.rows] == [
        (third, ["<PASSWORD_1>"]),
        (second, ["<PASSWORD_1>"]),
    ]
    first = page_of_review(proxy.services, REVIEWER, "low_confidence", "", 1, "")
    rest = page_of_review(proxy.services, REVIEWER, "low_confidence", first.next_after or "", 50, "")
    assert [row.event_id for row in (*first.rows, *rest.rows)] == [third, second]
    mark_event(proxy.services, REVIEWER, third, ReviewMark("right", surrogate="<PASSWORD_1>", reason="it is one"))
    assert [row.event_id for row in page_of_review(proxy.services, REVIEWER, "low_confidence", "", 9, "").rows] == [second]
    assert page_of_review(proxy.services, OTHER, "low_confidence", "", 50, "").rows == []
    assert {row.what for row in proxy.rows(select(access_log.c.what))} == {"review"}


async def test_samples_are_drawn_by_a_key_and_always_the_same(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_queue, "SAMPLED_PER_MILLE", 400)  # of so few none would be drawn now and then
    await calls(proxy, *(f"text {n}" for n in range(60)))
    one, two = (page_of_review(proxy.services, REVIEWER, "sample", "", 50, "") for _ in range(2))
    drawn = [row.event_id for row in one.rows]
    assert drawn == [row.event_id for row in two.rows] and 0 < len(drawn) < 60
    assert np.all(np.array(drawn[:-1]) > np.array(drawn[1:]))
    with pytest.raises(Refused, match="low_confidence or sample"):
        page_of_review(proxy.services, REVIEWER, "all", "", 50, "")


async def test_a_missed_value_becomes_a_rule_of_its_shape_and_is_found_elsewhere(
    proxy: Proxy, store_kind: str, tmp_path: Path
) -> None:
    one, two, _ = await calls(proxy, "badge EMP-12345", "mail EMP-12345 too", "EMP-99999")
    done = mark_event(proxy.services, REVIEWER, one, ReviewMark("missed", kind="EMPLOYEE_ID", value="EMP-12345"))
    assert done.elsewhere == [two] and not done.more and done.policy == 1
    with proxy.services.database.read() as connection:
        (rule,) = current_policy(connection, "acme")[1].rules
    assert (rule.pattern, rule.kind) == (r"EMP\-[0-9]{5}", "EMPLOYEE_ID")
    again = mark_event(proxy.services, REVIEWER, two, ReviewMark("missed", kind="EMPLOYEE_ID", value="EMP-54321"))
    assert again.policy is None
    assert [
        row.policy for row in proxy.rows(select(review_mark.c.policy).order_by(review_mark.c.created_us, review_mark.c.mark_id))
    ] == [1, None]
    proxy.services.checkpoints.cut()
    if store_kind == "sqlite":
        report = audited(proxy, *copy(proxy, tmp_path / "copy"))
        assert report.ok, report.problems


@pytest.mark.slow
async def test_what_fits_a_missed_pattern_is_found_elsewhere_in_what_was_said(proxy: Proxy) -> None:
    one, two, _, four = await calls(proxy, "badge EMP-12345", "mail\nEMP-67890 too", "EMP-none", "EMP-11111")
    done = mark_event(proxy.services, REVIEWER, one, ReviewMark("missed", kind="EMPLOYEE_ID", pattern="EMP-[0-9]{5}"))
    assert done.elsewhere == [two, four] and not done.more and done.policy == 1
    named = [row.target for row in proxy.rows(select(access_log.c.target).where(access_log.c.what == "search"))]
    assert named == ["EMPLOYEE_ID"]  # the looking is on record, and who it was about is not
    described = ReviewMark("missed", kind="MODEL_NAME", pattern="tiny")
    assert mark_event(proxy.services, REVIEWER, one, described).elsewhere == []


async def test_only_an_admin_lets_a_value_stay_and_it_is_kept_as_a_digest(proxy: Proxy) -> None:
    (one,) = await calls(proxy, "write to help@acme.io")
    mark = ReviewMark("false", value="help@acme.io", surrogate="<EMAIL_1>")
    with pytest.raises(NotAllowed):
        mark_event(proxy.services, REVIEWER, one, mark)
    assert mark_event(proxy.services, ADMIN, one, mark).policy == 1
    assert mark_event(proxy.services, REVIEWER, one, ReviewMark("false", surrogate="<EMAIL_1>")).policy is None
    with proxy.services.database.read() as connection:
        policy = current_policy(connection, "acme")[1]
    assert len(policy.allow_digests) == 1 and policy.allow == ()


async def test_what_is_not_there_or_cannot_be_a_rule_is_refused(proxy: Proxy) -> None:
    (one,) = await calls(proxy, "hello Zorbelina")
    with pytest.raises(NotFound):
        mark_event(proxy.services, OTHER, one, ReviewMark("right"))
    with pytest.raises(Refused, match="give a `pattern`"):
        mark_event(proxy.services, REVIEWER, one, ReviewMark("missed", kind="PERSON", value="Zorbelina"))
    with pytest.raises(Refused, match="refused"):
        mark_event(proxy.services, REVIEWER, one, ReviewMark("missed", kind="PERSON", pattern="(?=x)"))
    assert proxy.count(review_mark) == 0 and proxy.count(event) == 1


def test_a_shape_has_no_digit_of_its_value() -> None:
    assert pattern_of("A1-22 333") == r"A[0-9]{1}\-[0-9]{2}\ [0-9]{3}"
    with pytest.raises(InvalidPolicy):
        pattern_of("Ann 12")
