"""A scripted fake engine that speaks SGLang's HTTP contract; real SGLang passes the same conformance suite.

Use ``FakeEngine().serve()`` for a real server on a free port. It answers all four dialects; ``script`` replaces the answer to
generating calls by raw pieces, for tests of what engines do when they misbehave. Every generating call is kept in ``calls``. Its
process can be killed at the same fault points as the plug-in's.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from atdp import faults
from tests.fakes.broadcast import Groups
from tests.fakes.dialects.call import Dialect, Refused
from tests.fakes.dialects.chat import Chat
from tests.fakes.dialects.completions import Completions
from tests.fakes.dialects.messages import Messages
from tests.fakes.dialects.responses import Responses
from tests.fakes.engine_chat import Call, CallHandler, Script
from tests.fakes.generation import Model, encode, render
from tests.fakes.serving import serve
from workers.inference.client.http import RESTORE_ACTION
from workers.inference.middleware import RecordMiddleware


@dataclass
class FakeEngine:
    """State and knobs of one fake engine. ``disconnects`` counts calls whose client went away."""

    model_name: str = "tiny"
    model: Model = field(default_factory=Model)
    script: Script | None = None
    is_ready: bool = True
    responses: Responses = field(default_factory=Responses)
    calls: list[Call] = field(default_factory=list)
    disconnects: int = 0
    instance: str = field(default_factory=lambda: uuid4().hex)
    side_rids: list[str] = field(default_factory=list)
    """Ids of calls that sample nothing."""

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
        dialects: dict[str, Dialect] = {"/v1/chat/completions": Chat(), "/v1/completions": Completions()}
        dialects |= {"/v1/responses": self.responses, "/v1/messages": Messages()}
        _add_side_routes(control, self)
        calls = CallHandler(self, dialects)

        async def dispatch(scope: Any, receive: Any, send: Any) -> None:
            is_call = scope["type"] == "http" and scope["path"] in dialects
            await (calls if is_call else control)(scope, receive, send)

        return RecordMiddleware(dispatch, lambda order: None)


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
        cards = [{**card, "parent": None, "max_model_len": 2048}]
        if engine.model.adapters.serving is not None:
            cards.append({**card, "id": f"{engine.model.version}-0", "parent": engine.model_name, "max_model_len": None})
        return {"object": "list", "data": cards}

    @app.get("/model_info")
    async def model_info() -> Any:
        return {"model_path": "fake", "served_model_name": engine.model_name, "weight_version": engine.model.weights.version}

    @app.get("/server_info")
    async def server_info() -> Any:
        return {"version": "fake", "served_model_name": engine.model_name}

    @app.get("/headrace/engine")
    async def state() -> Any:
        model = engine.model
        told = {"engine": {"name": "fake", "version": "1"}, "missing_hooks": [], "num_pauses_expired": 0, "dtype": "float32"}
        told |= {"weight_version": model.version, "base_version": model.weights.version, "update": model.weights.update}
        told |= {"paused": not model.unpaused.is_set(), "instance": engine.instance}
        return told | {"num_in_flight": len(model.running), "num_aborted": model.num_aborted}

    @app.get("/v1/loads")
    async def loads() -> Any:
        return {"loads": [{"dp_rank": 0, "num_running_reqs": len(engine.model.running), "num_waiting_reqs": 0}]}


def _add_side_routes(app: FastAPI, engine: FakeEngine) -> None:
    @app.post("/v1/messages/count_tokens")
    async def count_tokens(request: Request) -> Response:
        dialect = Messages()
        engine.side_rids.append(request.headers.get("x-headrace-rid", ""))
        try:
            chat = dialect.as_chat({"max_tokens": 1, **await request.json()})
        except Refused as refusal:
            return JSONResponse(dialect.error(refusal.status, str(refusal)), refusal.status)
        return JSONResponse({"input_tokens": len(render(chat["messages"]))})

    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> Any:
        body = await request.json()
        engine.side_rids.append(request.headers.get("x-headrace-rid", ""))
        given = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [{"object": "embedding", "index": at, "embedding": [float(len(text)), 0.5]} for at, text in enumerate(given)]
        num_tokens = sum(len(encode(text)) for text in given)
        usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    @app.get("/v1/responses/{response_id}")
    @app.post("/v1/responses/{response_id}/cancel")
    async def stored(response_id: str) -> Response:
        status, body = engine.responses.retrieve(response_id)
        return JSONResponse(body, status)

    @app.delete("/v1/responses/{response_id}")
    async def delete(response_id: str) -> Response:
        status, body = engine.responses.retrieve(response_id)
        engine.responses.stored.pop(response_id, None)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True} if status == 200 else body, status)


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
            model.is_retracted = mode == "retract"
        faults.point("engine.after_pause")
        return {"message": "Generation paused successfully.", "status": "ok"}

    @app.post("/continue_generation")
    async def continue_generation() -> Any:
        if model.weights.update == "begun":  # as the plug-in does: nothing is sampled from half an update
            model.weights.restore()
            model.adapters.put_back()
        faults.point("engine.before_continue")
        model.weights.confirm()
        model.adapters.forget()
        model.unpaused.set()
        faults.point("engine.after_continue")
        return {"message": "Generation continued successfully.", "status": "ok"}

    @app.post("/begin_weight_update")
    async def begin() -> Response:
        done = model.weights.begin(paused=not model.unpaused.is_set())
        if done[0]:
            model.adapters.set_aside()
            faults.point("engine.after_begin")
        return outcome(*done)

    @app.post("/end_weight_update")
    async def end() -> Response:
        done = model.weights.end()
        if done[0]:
            faults.point("engine.after_end")
        return outcome(*done)

    @app.post("/update_weights_from_tensor")
    async def from_tensor(request: Request) -> Response:
        return outcome(*model.weights.load_payload(await request.json(), model.may_flush))

    groups = Groups()

    @app.post("/init_weights_update_group")
    async def join(request: Request) -> Response:
        try:
            await asyncio.to_thread(groups.join, await request.json())
        except RuntimeError as error:
            return outcome(False, f"Failed to initialize custom process group: {error}.")
        return outcome(True, "Succeeded to initialize custom process group.")

    @app.post("/update_weights_from_distributed")
    async def from_broadcast(request: Request) -> Response:
        body = await request.json()
        try:
            tensors = await asyncio.to_thread(groups.receive, body) if model.weights.is_open else {}
        except RuntimeError as error:
            return outcome(False, f"Failed to receive weights: {error}")
        return outcome(*model.weights.load_broadcast(tensors, body, model.may_flush))

    @app.post("/destroy_weights_update_group")
    async def leave(request: Request) -> Response:
        gone = groups.leave((await request.json())["group_name"])
        return outcome(gone, "Succeeded to destroy custom process group." if gone else "The group to be destroyed does not exist.")

    @app.post("/update_weights_from_disk")
    async def from_disk(request: Request) -> Response:
        return outcome(*model.weights.load_directory(await request.json(), model.may_flush))

    @app.post("/update_weight_version")
    async def update_weight_version(request: Request) -> Response:
        body = await request.json()
        if body.get("abort_all_requests", True):
            for rid in list(model.running):
                model.abort(rid)
        model.weights.version = body["new_version"]
        return outcome(True, f"Weight version updated to {body['new_version']}", new_version=body["new_version"])

    @app.post("/weights_checker")
    async def weights_checker(request: Request) -> Response:
        if (await request.json())["action"] == RESTORE_ACTION:
            success, message = model.weights.restore()
            model.adapters.put_back()
            return outcome(success, message)
        checksum = model.adapters.checksum()
        return outcome(True, "Success.", ranks=[{"per_gpu_checksum": checksum}], per_engine_checksum=checksum)

    @app.post("/headrace/adapter")
    async def take_adapter(request: Request) -> Response:
        refusal = model.adapters.take(await request.json())
        return JSONResponse({}) if refusal is None else JSONResponse({"message": refusal[1]}, refusal[0])

    @app.post("/flush_cache")
    async def flush_cache() -> Response:
        return Response("Cache flushed.\n") if model.may_flush else Response("Flush cache failed.\n", 400)
