"""Trajectories: the list with its filters, one as the conversation that it was, its tokens, and its proof."""

import re
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import select

from dataproxy.admit import REASONS
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.api.trajectory_routes import page_of_trajectories, session_names
from dataproxy.console.conversation import Reader
from dataproxy.console.decisions import against, because
from dataproxy.console.filters import NAMES, Filters, asked, fields_of, query_of
from dataproxy.console.given_rewards import at_turns, given_rewards
from dataproxy.console.plain import Budget
from dataproxy.console.proof import owner_of, proof_of
from dataproxy.console.rendering import render
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.console.tokens import strip
from dataproxy.console.words import reason
from dataproxy.errors import NotFound
from dataproxy.lease.explain import explain
from dataproxy.lease.learned import trainable_turns
from dataproxy.lease.windows import Now
from dataproxy.services import Services
from dataproxy.store.review import review_of
from dataproxy.store.rewards import as_reward
from dataproxy.store.schema import eligibility, event, trajectory
from dataproxy.store.segments import token_records
from dataproxy.store.statistics import redacted_kinds
from dataproxy.store.views import list_views

router = APIRouter()
_ROWS, _TURNS = 50, 40
_ID = re.compile(r"(tr|tool)-[0-9a-f]{32,64}|[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DECISIONS = [("", "any"), *((name, f"{name}: {reason(name)}") for name in REASONS)]
_MORE = (
    "session",
    "since",
    "until",
    "model",
    "version",
    "release",
    "lane",
    "tool",
    "error",
    "outcome",
    "eligible",
    "min_reward",
    "max_reward",
)
"""Fields that the form folds away until they say something."""
Start = Annotated[int, Query(ge=0, le=1 << 31)]


@router.get("/trajectories")
def get_list(
    request: Request, services: ServicesDep, seat: Seat, given: Annotated[Filters, Depends()], after: str = ""
) -> Response:
    """A page of the list."""
    require(seat.caller, "reviewer")
    fields, tenant = asked(asdict(given)), scope(seat.caller)
    if found := _named(services, seat, fields.get("text", "")):
        return RedirectResponse(found, 303)
    with services.database.read() as connection:
        kinds = redacted_kinds(connection, tenant)
    page = page_of_trajectories(services, seat.caller, query_of(fields, kinds), after, _ROWS, seat.purpose)
    with services.database.read() as connection:
        views = [(view, fields_of(view.query)) for view in list_views(connection, seat.caller.tenant)]
    form = {name: fields.get(name, "") for name in NAMES}
    shown: dict[str, Any] = {"page": page, "after": after, "reasons": _DECISIONS, "operator": tenant is None}
    shown |= {"kinds": [("", "any"), *((kind, kind) for kind in kinds)]}
    shown |= {"views": views, "more": any(form[name] for name in _MORE)}
    return render(request, "trajectories.html", seat, fields=fields, form=form, **shown)


@router.get("/trajectories/{trajectory_id}")
def get_one(
    request: Request, services: ServicesDep, seat: Seat, trajectory_id: str, start: Start = 0, tenant: str = ""
) -> Response:
    """A page of its turns, and all that is known of it."""
    require(seat.caller, "reviewer")
    with services.database.read() as connection:
        review = review_of(connection, _owner(seat, tenant), trajectory_id, start, _TURNS)
        now = Now(services.now_us(), services.settle_s)
        rewards = [as_reward(row) for row in review.rewards if row.value is not None]
        may_train = trainable_turns(connection, review.trajectory.tenant, trajectory_id)
        place = explain(connection, now, review.trajectory.tenant, trajectory_id, rewards).place
    put_on_record(services, seat.caller, [review.trajectory.tenant], "trajectory", trajectory_id, seat.purpose)
    reader = Reader(Budget())
    turns = [reader.turn(item) for item in review.events]
    shown: dict[str, Any] = {"review": review, "row": review.trajectory, "turns": turns, "start": start, "place": place}
    said = {
        (one.event_id, one.choice): because(one, review.tokens.get(one.event_id, {}).get(one.choice), services.drain.policy)
        for decisions in review.decisions.values()
        for one in decisions
    }
    shown |= {"may_train": may_train, "said": said}
    given = given_rewards(review.rewards)
    shown |= {"rewards": given, "at_turn": at_turns(given), "numbers": {turn.event_id: turn.seq for turn in turns}}
    return render(request, "trajectory.html", seat, **shown)


@router.get("/events/{event_id}/tokens")
def get_tokens(request: Request, services: ServicesDep, seat: Seat, event_id: str, start: Start = 0, tenant: str = "") -> Response:
    """The tokens of one event; a piece of the trajectory's page, or a page of its own."""
    require(seat.caller, "reviewer")
    owner = _owner(seat, tenant)
    with services.database.read() as connection:
        query = select(event.c.tenant, event.c.trajectory_id, event.c.seq).where(event.c.event_id == event_id)
        query = query.order_by(event.c.tenant)
        row = connection.execute(query if owner is None else query.where(event.c.tenant == owner)).first()
        if row is None:
            raise NotFound(f"no event {event_id}")
        records = token_records(connection, row.tenant, event_id)
        decided = select(eligibility).where(eligibility.c.tenant == row.tenant, eligibility.c.event_id == event_id)
        decisions = connection.execute(decided.order_by(eligibility.c.choice)).all()
    put_on_record(services, seat.caller, [row.tenant], "tokens", event_id, seat.purpose)
    strips = [strip(record, start) for record in records]
    altered = {one.choice: (one.num_prompt_altered + one.num_altered, one.num_prompt + one.num_output) for one in strips}
    why_not = against(decisions, altered, services.drain.policy)
    template = "tokens_piece.html" if "hx-request" in request.headers else "tokens.html"
    return render(request, template, seat, strips=strips, event_id=event_id, row=row, start=start, why_not=why_not)


@router.get("/trajectories/{trajectory_id}/proof")
def get_proof(request: Request, services: ServicesDep, seat: Seat, trajectory_id: str, tenant: str = "") -> Response:
    """Its leaves in the log, each with its path to the last checkpoint."""
    require(seat.caller, "reviewer")
    services.checkpoints.cut()
    with services.database.read() as connection:
        found = owner_of(connection, _owner(seat, tenant), trajectory_id)
        if found is None:
            raise NotFound(f"no trajectory {trajectory_id}")
        verifier = services.checkpoints.signer.verifier
        proof = proof_of(connection, found, trajectory_id, services.checkpoints)
    put_on_record(services, seat.caller, [found], "proof", trajectory_id, seat.purpose)
    return render(request, "proof.html", seat, proof=proof, trajectory_id=trajectory_id, owner=found, verifier=verifier)


def _named(services: Services, seat: Seat, text: str) -> str | None:
    """The page of the trajectory, or of the turn, whose id ``text`` is; the list of the session that is called so."""
    if not _ID.fullmatch(text):
        return _session(services, seat, text)
    tenant, of_trajectory = scope(seat.caller), text.startswith("tr-")
    if tenant is None and not of_trajectory:
        return None  # events are found by tenant
    table, column = (trajectory, trajectory.c.trajectory_id) if of_trajectory else (event, event.c.event_id)
    query = select(table.c.tenant, table.c.trajectory_id).where(column == text)
    with services.database.read() as connection:
        row = connection.execute(query if tenant is None else query.where(table.c.tenant == tenant)).first()
    if row is None or not row.trajectory_id:
        return None
    place = "" if of_trajectory else f"#e-{text}"
    return f"/console/trajectories/{row.trajectory_id}?{urlencode({'tenant': row.tenant})}{place}"


def _session(services: Services, seat: Seat, text: str) -> str | None:
    """The list of the trajectories of the session that is called ``text``."""
    tenant, called = scope(seat.caller), text.strip()
    if tenant is None or not called:
        return None  # sessions are found by tenant
    names = session_names(services, tenant, called)
    query = select(trajectory.c.trajectory_id).where(trajectory.c.tenant == tenant, trajectory.c.session_id.in_(names)).limit(1)
    with services.database.read() as connection:
        row = connection.execute(query).first()
    return f"/console/trajectories?{urlencode({'session': called})}" if row else None


def _owner(seat: Seat, tenant: str) -> str | None:
    """Whose to look among: the caller's own; of an operator, whom the address names."""
    return scope(seat.caller) if scope(seat.caller) is not None else tenant or None
