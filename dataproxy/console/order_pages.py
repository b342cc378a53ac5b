"""Roll back, promote, try on a share: a page that says what follows, a form that orders it, and how far the order is.

The order is the API's own; the trainer's keeper carries it out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, get_args
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import Connection, func, select, union

from atdp.versions import PolicyVersion, version_index
from dataproxy.api import order_routes
from dataproxy.api.identity import require, require_operator, scope
from dataproxy.client.order_types import OrderAction, OrderAsk, OrderStep, VersionOrder
from dataproxy.client.types import KeyInfo
from dataproxy.console.api_calls import answered
from dataproxy.console.choices import chosen
from dataproxy.console.gateway_glance import glance
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store import versions as stored
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import api_key, consent, trajectory
from dataproxy.store.version_orders import list_orders

router = APIRouter()
SHOWN = 5
_ONE_WORKER = "A share of the sessions is not on offer: it needs two workers, and the gateway has one (headrace up --workers 2)."
_HOUR_US, _MOST_COUNTED = 3_600_000_000, 10_000


@dataclass(slots=True, frozen=True)
class InService:
    """What serves now, what is tried on a share, and the order that is open; None where nothing is.

    ``num_workers``: how many workers the gateway has; None where it is not known.
    """

    serving: PolicyVersion | None
    canary: PolicyVersion | None
    open_order: VersionOrder | None = None
    num_workers: int | None = None

    @classmethod
    def of(
        cls, versions: Sequence[PolicyVersion], orders: Sequence[VersionOrder] = (), num_workers: int | None = None
    ) -> "InService":
        """Out of all versions, and the newest orders."""
        found = {one.state: one for one in versions if one.state in ("serving", "canary")}
        open_order = next((one for one in orders if one.is_open), None)
        return cls(found.get("serving"), found.get("canary"), open_order, num_workers)

    def withheld(self) -> str:
        """Why something is not on offer now that otherwise would be, in words; "" where all is."""
        if self.open_order is not None:
            about = self.open_order.version
            return f"The order about {about} is open: another can be given once it has ended, or was taken back before it began."
        return _ONE_WORKER if self.canary is None and self.num_workers == 1 else ""

    def is_before(self, version: PolicyVersion) -> bool:
        """Whether ``version`` is older than what serves: to serve it is a rollback."""
        return self.serving is not None and version_index(version.version) < version_index(self.serving.version)

    def deeds(self, version: PolicyVersion) -> list[tuple[OrderAction, str]]:
        """(action, what it is called) of all that may be ordered about ``version`` as things are."""
        if self.open_order is not None:
            return []
        if version.state == "serving":
            return [("serve", "End the canary")] if self.canary is not None else []
        if version.state == "canary":
            return [("serve", "Promote"), ("canary", "Change its share")]
        deeds: list[tuple[OrderAction, str]] = [("serve", "Roll back to it" if self.is_before(version) else "Let it serve")]
        if self.canary is None and version.state != "failed" and self.num_workers != 1:
            deeds.append(("canary", "Try it on a share"))
        return deeds

    def consequences(self, version: PolicyVersion, action: OrderAction) -> list[str]:
        """What follows, a sentence each."""
        name, before = version.version, self.serving.version if self.serving is not None else "what serves"
        says = []
        if version.state == "failed":
            says.append(f"A swap to {name} failed before.")
        if action == "canary":
            says.append(
                f"{name} answers the share that you say of all sessions, always the same ones; {before} answers the others."
            )
            says.append("It needs two workers. Sessions that both of them answered are not trained on.")
            return says
        if version.state == "serving":
            says.append(f"{name} goes on serving, and gets the canary's workers back.")
        else:
            says.append(f"{name} answers every call from then on. {before} is retired; the same way leads back.")
        if self.canary is not None and self.canary is not version and self.canary.version != name:
            says.append(f"{self.canary.version} is the canary no more; its sessions go to {name}.")
        if self.is_before(version):
            says.append(f"The trainer goes on from {name}. What was made after it stays on record, and nothing is deleted.")
        return says


def may_order(caller: KeyInfo) -> bool:
    """Whether a key may order anything: an operator's admin or trainer."""
    return scope(caller) is None and caller.role in ("admin", "trainer")


def num_workers(services: Services, caller: KeyInfo) -> int | None:
    """How many workers the gateway of this machine has; None: that is not known, or the caller may order nothing."""
    found = glance(services.data_dir / "run" / "stack.json") if may_order(caller) else None
    return len(found.workers) or None if found is not None else None


@router.get("/versions/{name}/order")
def get_order(
    request: Request, services: ServicesDep, seat: Seat, name: str, given: Annotated[str, Query(alias="action", max_length=80)] = ""
) -> Response:
    """What would follow. Nothing happens by opening it."""
    require(seat.caller, "trainer")
    require_operator(seat.caller)
    action: OrderAction = chosen("action", given, get_args(OrderAction)) or "serve"
    with services.database.read() as connection:
        versions = stored.list_versions(connection)
        version = stored.get_version(connection, name)
        concerned = concerns(*_affected(connection, services.now_us()))
        open_one = next((one for one in list_orders(connection, 1) if one.is_open), None)
    now = InService.of(versions, num_workers=num_workers(services, seat.caller))
    title = dict(now.deeds(version)).get(action)
    if title is None and action == "canary" and now.withheld():
        raise Refused(now.withheld())
    if title is None:
        raise Refused(f"as things are, there is nothing of that kind to order about {name}: it is {version.state}")
    says = now.consequences(version, action)
    return render(
        request, "order.html", seat, version=version, action=action, title=title, says=says, concerned=concerned, open=open_one
    )


@router.post("/versions/{name}/order")
def post_order(services: ServicesDep, seat: Seat, form: Form, name: str) -> Response:
    """Order it."""
    try:
        share = float(form.get("percent", "100")) / 100
        ask = msgspec.convert(
            {"version": name, "action": form.get("action"), "reason": form.get("reason", ""), "share": share}, OrderAsk
        )
    except (ValueError, msgspec.ValidationError) as error:
        raise Refused("an order takes `action` (serve or canary) and `percent`, a number") from error
    order_routes.post_order(services, seat.caller, msgspec.json.encode(ask))
    return RedirectResponse(f"/console/versions/{quote(name)}?done=ordered", 303)


@router.get("/orders")
def get_orders(
    request: Request, services: ServicesDep, seat: Seat, watching: Annotated[str, Query(max_length=80)] = ""
) -> Response:
    """The piece of a page that says how far orders are; the page itself is asked anew once the one watched has ended."""
    orders = answered(order_routes.get_orders(services, seat.caller, SHOWN), list[VersionOrder])
    answer = render(request, "orders_piece.html", seat, orders=orders, may_order=may_order(seat.caller))
    if watching and not any(one.is_open for one in orders if one.order_id == watching):
        answer.headers["hx-refresh"] = "true"
    return answer


@router.post("/orders/{order_id}/withdraw")
def post_withdrawal(services: ServicesDep, seat: Seat, _: Form, order_id: str) -> Response:
    """Take back what nobody has begun."""
    order_routes.post_step(services, seat.caller, order_id, "withdraw", msgspec.json.encode(OrderStep()))
    return RedirectResponse("/console/learning", 303)


def concerns(num_tenants: int, num_conversations: int) -> str:
    """Whom an order concerns, in a sentence; conversations are those that began in the last hour."""
    whom = {0: "no tenant yet", 1: "the one tenant"}.get(num_tenants, f"all {num_tenants} tenants")
    more, plural = "+" if num_conversations >= _MOST_COUNTED else "", "" if num_conversations == 1 else "s"
    return f"It concerns {whom}; in the last hour {num_conversations:,}{more} conversation{plural} began."


def _affected(connection: Connection, now_us: int) -> tuple[int, int]:
    """(tenants, conversations that began in the last hour, at most ``_MOST_COUNTED``)."""
    recent = select(trajectory.c.trajectory_id).where(trajectory.c.started_us > now_us - _HOUR_US).limit(_MOST_COUNTED).subquery()
    named = union(select(api_key.c.tenant), select(consent.c.tenant)).subquery()
    tenants = select(func.count()).select_from(named).where(named.c.tenant != OPERATOR)
    return int(connection.execute(tenants).scalar_one()), int(
        connection.execute(select(func.count()).select_from(recent)).scalar_one()
    )
