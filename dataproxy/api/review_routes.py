"""The queue of redactions to look at, and what a reviewer says of one: a missed value becomes a rule, a false one may stay."""

from collections.abc import Callable

import msgspec
from fastapi import APIRouter, Query, Response
from sqlalchemy import select

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.api.redaction_routes import checked
from dataproxy.client.types import KeyInfo
from dataproxy.client.vault_types import ReviewMark, ReviewMarked, ReviewPage
from dataproxy.errors import NotFound, Refused
from dataproxy.ledger.rows import append_rows
from dataproxy.redact import InvalidPolicy
from dataproxy.redact.policy import RedactionPolicy, TenantRule
from dataproxy.redact.rules.tenant import Matcher
from dataproxy.redact.shape import pattern_of
from dataproxy.services import Services
from dataproxy.store.redaction import add_policy, current_policy
from dataproxy.store.review_queue import samples, uncertain
from dataproxy.store.schema import event, review_mark
from dataproxy.store.search import SearchQuery, search_events, strings_in

router = APIRouter(prefix="/v1/review")
_MOST_ELSEWHERE = 50


@router.get("")
def get_queue(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    why: str = "low_confidence",
    after: str = "",
    limit: int = Query(50, ge=1, le=200),
) -> Response:
    """Events to look at, newest first: those with uncertain spans, or a sample of all."""
    require(caller, "reviewer")
    return json_answer(page_of_review(services, caller, why, after, limit, purpose))


@router.post("/{event_id}")
def post_mark(services: ServicesDep, caller: Caller, event_id: str, body: Body) -> Response:
    """Say what is right, missed or false."""
    require(caller, "reviewer")
    return json_answer(mark_event(services, caller, event_id, parse(body, ReviewMark)))


def page_of_review(services: Services, caller: KeyInfo, why: str, after: str, limit: int, purpose: str) -> ReviewPage:
    """What ``caller`` asks for, once that is on record.

    Raises:
        Refused: there is no such queue.
    """
    if why not in ("low_confidence", "sample"):
        raise Refused("`why` is low_confidence or sample")

    def draws(tenant: str, event_id: str) -> int:
        return int.from_bytes(services.digests(tenant).of(b"sample", event_id.encode())[:4]) % 1000

    with services.database.read() as connection:
        if why == "sample":
            rows, next_after = samples(connection, scope(caller), after, limit, draws)
        else:
            rows, next_after = uncertain(connection, scope(caller), after, limit)
    put_on_record(services, caller, {row.tenant for row in rows} or {caller.tenant}, "review", why, purpose)
    return ReviewPage(rows, next_after)


def mark_event(services: Services, caller: KeyInfo, event_id: str, mark: ReviewMark) -> ReviewMarked:
    """Put ``mark`` on record, with the policy that comes of it; gives where else a missed value or pattern stands.

    Raises:
        NotFound: the caller has no such event. Refused: no rule can be made of it. NotAllowed: only an admin lets a value stay.
    """
    with services.database.read() as connection:
        query, own = select(event.c.tenant).where(event.c.event_id == event_id), scope(caller)
        owner = connection.execute(query if own is None else query.where(event.c.tenant == own)).scalar()
        if owner is None:
            raise NotFound(f"no event {event_id}")
        policy = current_policy(connection, owner)[1]
    changed = _changed(services, caller, owner, policy, mark)
    mark_id, redactor = f"mark-{new_event_id()}", services.redactors.of(owner)
    reason = redactor.redact_text(mark.reason).text if mark.reason else ""
    with services.database.write() as connection:
        number = None
        if changed is not None:
            why = f"review of {event_id}: {mark.verdict}"
            number = add_policy(connection, owner, changed, why, caller.key_id, services.now_us())
        row = {"tenant": owner, "mark_id": mark_id, "event_id": event_id, "verdict": mark.verdict, "kind": mark.kind[:128]}
        row |= {"path": redactor.redact_text(mark.path).text if mark.path else "", "start": mark.start, "policy": number}
        row |= {"surrogate": redactor.redact_text(mark.surrogate).text[:128] if mark.surrogate else "", "reason": reason}
        row |= {"key_id": caller.key_id, "created_us": services.now_us()}
        connection.execute(review_mark.insert().values(row))
        append_rows(connection, review_mark, [row])
    services.renew(owner)
    elsewhere, more = _elsewhere(services, caller, owner, event_id, mark) if mark.verdict == "missed" else ([], False)
    return ReviewMarked(mark_id, number, elsewhere, more)


def _changed(services: Services, caller: KeyInfo, owner: str, policy: RedactionPolicy, mark: ReviewMark) -> RedactionPolicy | None:
    """The policy that the mark asks for; None where it asks for none."""
    if mark.verdict == "missed":
        try:
            pattern = mark.pattern or pattern_of(mark.value)
        except InvalidPolicy as error:
            raise Refused(str(error)) from error
        rule = TenantRule(f"review-{new_event_id()[-12:]}", pattern, mark.kind or "REVIEWED")
        known = any(one.pattern == rule.pattern and one.kind == rule.kind for one in policy.rules)
        wanted = None if known else msgspec.structs.replace(policy, rules=(*policy.rules, rule))
    elif mark.verdict == "false" and mark.value:
        require(caller)  # what may stay is an admin's word, as it is when a policy is set
        wanted = msgspec.structs.replace(policy, allow=(mark.value,))
    else:
        return None
    return None if wanted is None else checked(services, owner, msgspec.to_builtins(wanted))


def _elsewhere(services: Services, caller: KeyInfo, owner: str, event_id: str, mark: ReviewMark) -> tuple[list[str], bool]:
    """Other events that say the missed value, or else fit the pattern, and whether there may be more; the reading is on record."""
    says = None if mark.value else _fitting(mark.pattern)
    put_on_record(services, caller, [owner], "search", mark.kind, f"a {'value' if mark.value else 'pattern'} that redaction missed")
    with services.database.read() as connection:
        found, more = search_events(connection, SearchQuery(owner, mark.value), 0, _MOST_ELSEWHERE, says)
    return [one.event_id for one in found if one.event_id != event_id and one.kind != "access"], more is not None


def _fitting(pattern: str) -> Callable[[Event], bool]:
    """Whether anything that was said or done in an event fits ``pattern``; what describes the event is not looked at."""
    matcher = Matcher("pattern", pattern)
    return lambda item: any(matcher.within(text) for part in (item.o, item.a, item.y) for text in strings_in(part))
