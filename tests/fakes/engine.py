"""A scripted fake engine that speaks SGLang's HTTP contract; real SGLang passes the same conformance suite.

Use ``FakeEngine().serve()`` for a real server on a free port. ``script`` replaces the answer to chat calls by raw pieces, for
tests of what engines do when they misbehave. Every chat call is kept in ``calls``.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tests.fakes.engine_chat import Call, ChatHandler, Script
from tests.fakes.generation import Model
from tests.fakes.serving import serve
from workers.inference.middleware import RecordMiddleware


@dataclass
class FakeEngine:
    """State and knobs of one fake engine. ``disconnects`` counts chat calls whose client went away."""

    model_name: str = "tiny"
    model: Model = field(default_factory=Model)
    script: Script | None = None
    is_ready: bool = True
    calls: list[Call] = field(default_factory=list)
    disconnects: int = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The base URL while the context lasts."""
        async with serve(self.app(), lifespan="off") as url:
            yield url

    def app(self) -> Any:
        """The ASGI application, with the record's middleware outermost as in the real engine."""
        control = FastAPI()
        _add_information(control, self)
        _add_control(control, self)
        chat = ChatHandler(self)

        async def dispatch(scope: Any, receive: Any, send: Any) -> None:
            is_chat = scope["type"] == "http" and scope["path"] == "/v1/chat/completions"
            await (chat if is_chat else control)(scope, receive, send)

        return RecordMiddleware(dispatch, lambda record: None)


def _add_information(app: FastAPI, engine: FakeEngine) -> None:
    @app.get("/ready")
    async def ready() -> Response:
        return Response(status_code=200 if engine.is_ready and engine.model.unpaused.is_set() else 503)

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200)

    @app.get("/v1/models")
    async def models() -> Any:
        card = {"id": engine.model_name, "object": "model", "created": 1, "owned_by": "sglang", "root": engine.model_name}
        return {"object": "list", "data": [{**card, "parent": None, "max_model_len": 2048}]}

    @app.get("/model_info")
    async def model_info() -> Any:
        return {"model_path": "fake", "served_model_name": engine.model_name, "weight_version": engine.model.version}

    @app.get("/server_info")
    async def server_info() -> Any:
        return {"version": "fake", "served_model_name": engine.model_name}

    @app.get("/v1/loads")
    async def loads() -> Any:
        return {"loads": [{"dp_rank": 0, "num_running_reqs": len(engine.model.running), "num_waiting_reqs": 0}]}


def _add_control(app: FastAPI, engine: FakeEngine) -> None:
    model = engine.model

    def outcome(success: bool, message: str, **more: Any) -> Response:
        return JSONResponse({"success": success, "message": message, **more}, 200 if success else 400)

    @app.post("/abort_request")
    async def abort_request(request: Request) -> Response:
        body = await request.json()
        for rid in list(model.running) if body.get("abort_all") else [body["rid"]]:
            model.abort(rid)
        return Response()

    @app.post("/pause_generation")
    async def pause(request: Request) -> Any:
        mode = (json.loads(await request.body() or b"{}")).get("mode", "abort")
        if mode == "abort":
            for rid in list(model.running):
                model.abort(rid)
        else:
            model.unpaused.clear()
        return {"message": "Generation paused successfully.", "status": "ok"}

    @app.post("/continue_generation")
    async def continue_generation() -> Any:
        model.unpaused.set()
        return {"message": "Generation continued successfully.", "status": "ok"}

    @app.post("/begin_weight_update")
    async def begin() -> Response:
        if model.updating:
            return outcome(False, "a weight update session is already open")
        model.updating = True
        return outcome(True, "Success")

    @app.post("/end_weight_update")
    async def end() -> Response:
        if not model.updating:
            return outcome(False, "no weight update session is open")
        model.updating = False
        return outcome(True, "Success")

    @app.post("/update_weights_from_tensor")
    async def from_tensor(request: Request) -> Response:
        return _take_weights(engine, await request.body(), outcome)

    @app.post("/update_weights_from_distributed")
    async def from_distributed(request: Request) -> Response:
        return _take_weights(engine, await request.body(), outcome)

    @app.post("/update_weight_version")
    async def update_weight_version(request: Request) -> Response:
        body = await request.json()
        if body.get("abort_all_requests", True):
            for rid in list(model.running):
                model.abort(rid)
        model.version = body["new_version"]
        return outcome(True, f"Weight version updated to {model.version}", new_version=model.version)

    @app.post("/weights_checker")
    async def weights_checker() -> Response:
        return outcome(True, "Success", ranks=[{"per_gpu_checksum": model.checksum}], per_engine_checksum=model.checksum)

    @app.post("/flush_cache")
    async def flush_cache() -> Response:
        return Response("Cache flushed.\n")


def _take_weights(engine: FakeEngine, body: bytes, outcome: Any) -> Response:
    """New weights change the checksum; a version in the same request is stamped from then on."""
    if not engine.model.updating:
        return outcome(False, "weights can only be updated between begin_weight_update and end_weight_update")
    engine.model.checksum = hashlib.sha256(body).hexdigest()
    engine.model.version = json.loads(body).get("weight_version") or engine.model.version
    return outcome(True, "Success")
