"""One policy version: where it comes from, what became of it, and what it learned from; and its batch, rebuilt."""

from typing import Any

from fastapi import APIRouter, Request, Response

from atdp.versions import version_index
from dataproxy.api import training_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.console.lessons import MOST_LESSONS, lessons_of
from dataproxy.console.measures import measured
from dataproxy.console.order_pages import SHOWN, InService, may_order, num_workers
from dataproxy.console.rendering import render
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.store import versions
from dataproxy.store.scope import EVERYBODY
from dataproxy.store.version_history import LeftOut, left_out_of, lent_us, rebuild, rewards_at, states_of, uses_of
from dataproxy.store.version_orders import list_orders, orders_behind
from dataproxy.store.version_outcomes import version_outcomes

router = APIRouter()
_MOST_LEFT_OUT = 50


@router.get("/versions/{name}")
def get_version(request: Request, services: ServicesDep, seat: Seat, name: str) -> Response:
    """A version, and the trajectories that it learned from: their turns, the reward that was used, and what it is now.

    A tenant is told of its own trajectories alone, also where the manifest that says so mixed tenants.
    """
    require(seat.caller, "reviewer", "trainer")
    index = version_index(name)
    tenant, opens = scope(seat.caller), seat.caller.role != "trainer"
    with services.database.read() as connection:
        stored = versions.get_version(connection, name)
        version = training_routes.shown(seat.caller, stored)
        uses = uses_of(connection, tenant, name, MOST_LESSONS + 1)
        more, uses = len(uses) > MOST_LESSONS, uses[:MOST_LESSONS]
        owners = {row.trajectory_id: row.tenant for row in uses}
        now = rewards_at(connection, owners, None)
        outcomes = version_outcomes(connection, tenant, among=(index,))
        states = orders_behind(connection, states_of(connection, name)) if tenant is None else []
        orders = list_orders(connection, SHOWN) if tenant is None else []
        every = versions.list_versions(connection)
    with services.database.read(EVERYBODY) as connection:
        manifest = versions.manifest_of(connection, stored)
        at_us = manifest.as_of_us if manifest is not None else lent_us(connection, uses[0].lease_id) if uses else None
    with services.database.read() as connection:
        then = rewards_at(connection, owners, at_us) if at_us is not None else {}
        lease_id = manifest.lease_id if manifest is not None else uses[0].lease_id if uses else None
        left_out = left_out_of(connection, tenant, lease_id, _MOST_LEFT_OUT) if lease_id is not None else LeftOut()
        lessons = lessons_of(connection, uses, manifest, at_us if at_us is not None else services.now_us(), opens)
    concerned = {row.tenant for row in (*uses, *left_out.rows)} or {seat.caller.tenant}
    put_on_record(services, seat.caller, concerned, "version", name, seat.purpose)
    in_service = InService.of(every, orders, num_workers(services, seat.caller))
    shown: dict[str, Any] = {"version": version, "uses": uses, "more": more, "lessons": lessons, "left_out": left_out}
    used = {one: manifest.rewards[one] for one in owners if one in manifest.rewards} if manifest is not None else {}
    shown |= {"used": used, "then": then, "now": now, "at_us": at_us, "states": states}
    shown |= {
        "outcome": outcomes[0] if outcomes else None,
        "measured": measured(version.metrics),
        "orders": orders,
        "may_order": may_order(seat.caller),
        "deeds": in_service.deeds(version),
        "withheld": in_service.withheld(),
    }
    return render(request, "version.html", seat, may_open=opens, operator=tenant is None, **shown)


@router.get("/batches/{batch_id}")
def get_batch(request: Request, services: ServicesDep, seat: Seat, batch_id: str) -> Response:
    """A batch as it was: its trajectories, the rewards that were used, and whether the store leads to the same ones again."""
    require(seat.caller, "reviewer", "trainer")
    tenant, opens = scope(seat.caller), seat.caller.role != "trainer"
    with services.database.read() as connection:
        manifest = versions.get_batch(connection, batch_id, tenant)
        batch = rebuild(connection, manifest, tenant)
        uses = uses_of(connection, tenant, manifest.version, MOST_LESSONS)
        lessons = lessons_of(connection, uses, manifest, manifest.as_of_us, opens)
        left_out = left_out_of(connection, tenant, manifest.lease_id, _MOST_LEFT_OUT)
    owners = {row.tenant for row in (*batch.rows, *left_out.rows) if row.tenant} or {seat.caller.tenant}
    put_on_record(services, seat.caller, owners, "batch", batch_id, seat.purpose)
    shown: dict[str, Any] = {"batch": batch, "manifest": manifest, "lessons": lessons, "left_out": left_out}
    return render(request, "batch.html", seat, may_open=opens, **shown)
