"""Learning: what was measured by version, alarms, versions as a tree, and two versions beside each other."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from atdp.versions import version_index
from dataproxy.alarms.watch import look
from dataproxy.api import training_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.console.lineage import lineage
from dataproxy.console.measures import charts_of, compared, verdict
from dataproxy.console.order_pages import SHOWN, InService, may_order, num_workers
from dataproxy.console.rendering import render
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.store import versions as stored
from dataproxy.store.version_history import states_of
from dataproxy.store.version_orders import list_orders, orders_behind
from dataproxy.store.version_outcomes import MOST_TRAJECTORIES, version_outcomes

router = APIRouter()
_MOST_VERSIONS, _CHANGES = 200, 12
Name = Annotated[str, Query(max_length=32)]


@router.get("/learning")
def get_learning(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Alarms, the tree, and curves by version."""
    require(seat.caller, "reviewer", "trainer")
    tenant = scope(seat.caller)
    with services.database.read() as connection:
        versions = [training_routes.shown(seat.caller, one) for one in stored.list_versions(connection)]
        outcomes = version_outcomes(connection, tenant)
        alarms = look(connection, tenant, services.now_us(), outcomes)
        changes = orders_behind(connection, states_of(connection, limit=_CHANGES)) if tenant is None else []
        orders = list_orders(connection, SHOWN) if tenant is None else []
    recent = versions[-_MOST_VERSIONS:]
    now = InService.of(versions, orders, num_workers(services, seat.caller))
    shown: dict[str, Any] = {"tree": lineage(recent), "outcomes": {one.version: one for one in outcomes}, "changes": changes}
    shown |= {"orders": orders, "may_order": may_order(seat.caller), "now": now}
    shown |= {
        "num_versions": len(versions),
        "operator": tenant is None,
        "alarms": alarms,
        "looked_at": MOST_TRAJECTORIES,
        "may_open": seat.caller.role != "trainer",
    }
    names = [one.version for one in reversed(recent)]
    pair = (now.serving.parent or "", now.serving.version) if now.serving is not None else ("", "")
    pair = (pair[1], now.canary.version) if now.canary is not None else pair
    return render(
        request, "learning.html", seat, charts=charts_of(outcomes, recent), names=names, pair=pair, canary=now.canary, **shown
    )


@router.get("/compare")
def get_compare(request: Request, services: ServicesDep, seat: Seat, first: Name = "", second: Name = "") -> Response:
    """Two versions: what they earned, how sure the difference is, and what their steps measured."""
    require(seat.caller, "reviewer", "trainer")
    indexes = (version_index(first), version_index(second))
    with services.database.read() as connection:
        pair = [training_routes.shown(seat.caller, stored.get_version(connection, name)) for name in (first, second)]
        earned = {one.version: one for one in version_outcomes(connection, scope(seat.caller), among=indexes)}
    put_on_record(services, seat.caller, [seat.caller.tenant], "version", f"{first} {second}", seat.purpose)
    outcomes = [earned.get(name) for name in (first, second)]
    shown: dict[str, Any] = {"pair": pair, "outcomes": outcomes, "verdict": verdict(*outcomes), "looked_at": MOST_TRAJECTORIES}
    figures = compared(pair[0].metrics, pair[1].metrics)
    return render(request, "compare.html", seat, figures=figures, operator=scope(seat.caller) is None, **shown)
