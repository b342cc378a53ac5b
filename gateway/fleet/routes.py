"""The operator's routes: register, renew, drain and remove workers, put them into lanes, in and out of rotation.

An operator is an admin whose key belongs to no tenant: a worker serves every tenant, so no tenant's admin may bring one in. Whoever
publishes versions for all tenants (the trainer's key without a tenant) may look, say what a lane serves, and what must not serve.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import FastAPI, Request, Response

from gateway.bodies import read_body
from gateway.errors import Refused
from gateway.fleet.addresses import Network, checked_origin
from gateway.fleet.follow import Follower, entry_of
from gateway.fleet.register import Change, Out, Register, id_of
from gateway.headers import credential, header
from gateway.state import Gateway
from router.workers import Lane, Worker

T = TypeVar("T")
_MAX_BODY_BYTES = 64 << 10


class NewWorker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for a worker. With ``ttl_s`` it must be renewed (by the same call) within that time."""

    url: str
    lane: Lane = "stable"
    ttl_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] | None = None
    kind: Literal["sglang", "external"] = "sglang"


class Lanes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The share of the canary lane, and the versions that the lanes named serve (an empty list: any). None: as it is."""

    canary_per_mille: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    versions: dict[Lane, list[str]] = {}


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lane that a worker goes to."""

    lane: Lane


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a worker goes out of rotation. With ``until_restart`` only another ``instance`` of it is let back in by itself."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    until_restart: bool = False
    instance: str = ""


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start of a worker (its ``instance``) whose weights are those on record of the version that it names."""

    instance: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class WorkerView(msgspec.Struct, frozen=True):
    """A worker as operators see it. ``drained``: it is draining, runs nothing, and no session of it is recent.

    ``version``: the weights that it says it holds; ``proven``: the start of it that showed them; ``refusal``: why it gets no calls
    although it answers; ``out``: who took it out.
    """

    id: str
    url: str
    lane: str
    kind: str
    source: Literal["settings", "registered"]
    health: str
    models: list[str]
    in_flight: int
    elsewhere: int
    max_running: int | None
    draining: bool
    drained: bool
    ejected: bool
    version: str
    proven: str
    refusal: str
    out: Out | None


def add_fleet(api: FastAPI, gateway: Gateway, register: Register, follower: Follower) -> None:
    """Add the routes of ``gateway`` to ``api``."""
    routes = FleetRoutes(gateway, register, follower)
    api.add_api_route("/v1/workers", routes.show, methods=["GET"])
    api.add_api_route("/v1/workers", routes.add, methods=["POST"])
    api.add_api_route("/v1/workers/{worker_id}", routes.remove, methods=["DELETE"])
    api.add_api_route("/v1/workers/{worker_id}/drain", routes.drain, methods=["POST"])
    api.add_api_route("/v1/workers/{worker_id}/drain", routes.undrain, methods=["DELETE"])
    api.add_api_route("/v1/workers/{worker_id}/out", routes.take_out, methods=["PUT"])
    api.add_api_route("/v1/workers/{worker_id}/out", routes.take_back, methods=["DELETE"])
    api.add_api_route("/v1/workers/{worker_id}/proof", routes.prove, methods=["PUT"])
    api.add_api_route("/v1/workers/{worker_id}/lane", routes.move, methods=["PUT"])
    api.add_api_route("/v1/lanes", routes.share, methods=["PUT"])


class FleetRoutes:
    """The handlers."""

    def __init__(self, gateway: Gateway, register: Register, follower: Follower) -> None:
        self._gateway = gateway
        self._register = register
        self._follower = follower
        self._allowed: tuple[Network, ...] = gateway.settings.worker_ranges

    async def show(self, request: Request) -> Response:
        """Every worker that this process knows."""
        await self._require_operator(request, "trainer")
        return _json({"workers": [self._view(worker) for worker in self._gateway.workers], **self._lanes()})

    async def add(self, request: Request) -> Response:
        """Register a worker, or renew it: 201 or 200."""
        await self._require_operator(request)
        new = await self._read(request, NewWorker)
        url, origin = await checked_origin(new.url, self._allowed)
        if url in self._gateway.settings.engine_urls:
            raise Refused(409, "worker_in_settings", "this worker is in the gateway's settings already", param="url")
        expires_at = None if new.ttl_s is None else time.time() + new.ttl_s
        entry = entry_of(url, origin, lane=new.lane, kind=new.kind, expires_at=expires_at)
        is_new = await self._change(lambda change: change.put(entry))
        return _json(self._view(self._known(id_of(url))), 201 if is_new else 200)

    async def remove(self, request: Request, worker_id: str) -> Response:
        """Take a worker out; calls that it runs go on."""
        await self._require_operator(request)
        if self._view(self._known(worker_id)).source == "settings":
            raise Refused(409, "worker_in_settings", "this worker is in the gateway's settings; drain it, or take it out there")
        await self._change(lambda change: change.remove(worker_id))
        return _json({"id": worker_id, "removed": True})

    async def drain(self, request: Request, worker_id: str) -> Response:
        """No new sessions for a worker; those that it has stay until they are idle."""
        return await self._drain(request, worker_id, on=True)

    async def undrain(self, request: Request, worker_id: str) -> Response:
        """End a drain."""
        return await self._drain(request, worker_id, on=False)

    async def take_out(self, request: Request, worker_id: str) -> Response:
        """No calls for a worker from now on, but for those that it runs."""
        await self._require_operator(request, "trainer")
        self._known(worker_id)
        asked = await self._read(request, Rotation)
        out = Out(asked.reason, time.time_ns() // 1000, asked.until_restart, asked.instance)
        await self._change(lambda change: change.put_out(worker_id, out))
        return _json(self._view(self._known(worker_id)))

    async def take_back(self, request: Request, worker_id: str) -> Response:
        """Calls for a worker again, once it is found ready."""
        await self._require_operator(request, "trainer")
        self._known(worker_id)
        await self._change(lambda change: change.put_out(worker_id, None))
        return _json(self._view(self._known(worker_id)))

    async def prove(self, request: Request, worker_id: str) -> Response:
        """Say which start of a worker holds what it says: where lanes serve versions on record, no other start of it serves."""
        await self._require_operator(request, "trainer")
        self._known(worker_id)
        instance = (await self._read(request, Proof)).instance
        await self._change(lambda change: change.prove(worker_id, instance))
        return _json(self._view(self._known(worker_id)))

    async def move(self, request: Request, worker_id: str) -> Response:
        """Put a worker into a lane."""
        await self._require_operator(request, "trainer")
        self._known(worker_id)
        lane = (await self._read(request, Move)).lane
        await self._change(lambda change: change.move(worker_id, lane))
        return _json(self._view(self._known(worker_id)))

    async def share(self, request: Request) -> Response:
        """Set the share of the canary lane, and say what the lanes serve."""
        await self._require_operator(request, "trainer")
        lanes = await self._read(request, Lanes)

        def edit(change: Change) -> None:
            if lanes.canary_per_mille is not None:
                change.share(lanes.canary_per_mille)
            for lane, versions in lanes.versions.items():
                change.serve(lane, versions)

        await self._change(edit)
        return _json(self._lanes())

    async def _drain(self, request: Request, worker_id: str, *, on: bool) -> Response:
        await self._require_operator(request)
        self._known(worker_id)
        await self._change(lambda change: change.drain(worker_id, on))
        return _json(self._view(self._known(worker_id)))

    async def _change(self, edit: Callable[[Change], T]) -> T:
        """Write, then let it hold here; the other processes see it at their next poll."""

        def write() -> T:
            with self._register.changing() as change:
                return edit(change)

        result = await asyncio.to_thread(write)
        self._follower(time.time())
        return result

    async def _require_operator(self, request: Request, *others: str) -> None:
        identity = await self._gateway.keys.holder(credential(request.scope["headers"]))
        if identity.role not in ("admin", *others) or identity.tenant:
            raise Refused(
                403, "operator_required", "only the operator's key may do this (admin.key in the configuration directory)"
            )

    async def _read(self, request: Request, type_: type[T]) -> T:
        headers, timeout_s = request.scope["headers"], self._gateway.settings.body_timeout_s
        length, encoding = header(headers, b"content-length"), header(headers, b"content-encoding")
        body = await read_body(request.receive, length, encoding, _MAX_BODY_BYTES, timeout_s)
        try:
            return msgspec.json.decode(body, type=type_)
        except msgspec.DecodeError as error:
            raise Refused(400, "invalid_request", f"the body is not what this call takes: {error}") from error

    def _known(self, worker_id: str) -> Worker:
        for worker in self._gateway.workers:
            if id_of(worker.url) == worker_id:
                return worker
        raise Refused(404, "worker_not_found", "no worker has this id; GET /v1/workers lists them")

    def _lanes(self) -> dict[str, object]:
        return {"canary_per_mille": self._gateway.routing.canary_per_mille, "versions": self._follower.registered.versions}

    def _view(self, worker: Worker) -> WorkerView:
        return WorkerView(
            id=id_of(worker.url),
            url=worker.url,
            lane=worker.lane,
            kind=worker.kind,
            source="settings" if worker.url in self._gateway.settings.engine_urls else "registered",
            health=worker.health.name.lower(),
            models=sorted(worker.models),
            in_flight=worker.num_in_flight,
            elsewhere=worker.num_elsewhere,
            max_running=worker.max_running,
            draining=worker.draining,
            drained=worker.draining and not worker.load and worker.recent.empty,
            ejected=worker.ejection.holds(time.monotonic()),
            version=worker.version,
            proven=self._follower.registered.proven.get(id_of(worker.url), ""),
            refusal=worker.refusal,
            out=self._follower.registered.out.get(id_of(worker.url)) if worker.out else None,
        )


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
