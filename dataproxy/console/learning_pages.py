"""Learning: reward by policy version, what the trainer measured, versions as a tree, and what each was trained on."""

from collections import defaultdict
from typing import TypeVar

import msgspec
from fastapi import APIRouter, Request, Response
from sqlalchemy import select

from atdp.versions import PolicyVersion, version_index
from dataproxy.api import reading_routes, training_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.client.types import VersionRewards
from dataproxy.console.charts import Chart, line_chart
from dataproxy.console.rendering import render
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.store.schema import training_use

router = APIRouter()
T = TypeVar("T")
_MOST_VERSIONS = 200
_MOST_USES = 200


@router.get("/learning")
def get_learning(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Curves by version, and the tree."""
    require(seat.caller, "reviewer", "trainer")
    rewards = _read(reading_routes.get_reward_stats(services, seat.caller), list[VersionRewards])[-_MOST_VERSIONS:]
    versions = _read(training_routes.get_versions(services, seat.caller), list[PolicyVersion])
    recent = versions[-_MOST_VERSIONS:]
    charts = [line_chart("Mean reward", [(r.version, r.mean) for r in rewards])]
    charts += [line_chart("Rewarded trajectories", [(r.version, float(r.num)) for r in rewards])]
    for name in sorted({name for version in recent for name in version.metrics}):
        charts.append(line_chart(name, [(v.version, v.metrics[name]) for v in recent if name in v.metrics]))
    drawn: list[Chart] = [chart for chart in charts if chart is not None]
    by_version = {r.version: r for r in rewards}
    tree = _tree(recent)
    return render(
        request,
        "learning.html",
        seat,
        charts=drawn,
        tree=tree,
        rewards=by_version,
        num_versions=len(versions),
        operator=scope(seat.caller) is None,
    )


@router.get("/versions/{name}")
def get_version(request: Request, services: ServicesDep, seat: Seat, name: str) -> Response:
    """One version: where it comes from, how its step went, and the trajectories that it learned from."""
    require(seat.caller, "reviewer", "trainer")
    version_index(name)
    version = msgspec.json.decode(bytes(training_routes.get_version(services, seat.caller, name).body), type=PolicyVersion)
    tenant = scope(seat.caller)
    query = select(training_use).where(training_use.c.version == name)
    if tenant is not None:
        query = query.where(training_use.c.tenant == tenant)
    ordered = query.order_by(training_use.c.used_us, training_use.c.trajectory_id).limit(_MOST_USES + 1)
    with services.database.read() as connection:
        uses = connection.execute(ordered).all()
    put_on_record(services, seat.caller, {row.tenant for row in uses} or {seat.caller.tenant}, "version", name, seat.purpose)
    return render(
        request, "version.html", seat, version=version, uses=uses[:_MOST_USES], more=len(uses) > _MOST_USES,
        may_open=seat.caller.role != "trainer",
    )  # fmt: skip


def _tree(versions: list[PolicyVersion]) -> list[tuple[int, PolicyVersion]]:
    """(depth, version), newest first; depth counts branches, so that a line of versions stays straight."""
    children: dict[str | None, list[PolicyVersion]] = defaultdict(list)
    for version in versions:
        children[version.parent].append(version)
    depth: dict[str, int] = {}
    for version in versions:
        siblings = children[version.parent]
        depth[version.version] = depth.get(version.parent or "", 0) + (version is not siblings[0])
    return [(min(depth[version.version], 6), version) for version in reversed(versions)]


def _read(answer: Response, type_: type[T]) -> T:
    return msgspec.json.decode(bytes(answer.body), type=type_)
