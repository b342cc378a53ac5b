"""The description of the API matches the API: every route is in it, and what is drawn from it meets nothing undocumented."""

import asyncio
import contextlib
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi.routing import APIRoute

from gateway.api import create_api
from gateway.dialects import BY_PATH
from gateway.openapi import document
from tests.fakes.dataproxy import key_row
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve
from tests.gateway.conftest import KEYS, run_gateway

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
OPERATOR = key_row("hr_operator", tenant="", agent="", role="admin")


class PatientEngine(FakeEngine):
    """The fake engine, except that a request it cannot read is a 400, as of an engine that checks its input."""

    @asynccontextmanager
    async def serve(self):
        app = self.app()

        async def checked(scope, receive, send):
            messages = []

            async def keep(message):
                messages.append(message)

            with contextlib.suppress(Exception):  # after a 500 of its own, or in the middle of an answer
                await app(scope, receive, keep)
                for message in messages:
                    await send(message)
                return
            body = b'{"object":"error","message":"not understood","type":"BadRequestError","param":null,"code":400}'
            if scope["path"].startswith("/v1/messages"):
                body = b'{"type":"error","error":{"type":"invalid_request_error","message":"not understood"}}'
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"application/json")]})
            await send({"type": "http.response.body", "body": body})

        async with serve(checked, lifespan="off") as url:
            yield url


@pytest.fixture
async def gateway(run_dir):
    engine = PatientEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url]) as served:
        served.dataproxy.keys.append(OPERATOR)
        served.gateway.keys.load(msgspec.json.encode([*KEYS, OPERATOR]))
        yield served


async def test_every_route_is_described_and_every_description_has_its_route(served):
    api = create_api(served.gateway)
    shown = [route for route in api.routes if isinstance(route, APIRoute) and route.include_in_schema]
    routes = {(route.path.replace(":path", ""), method.lower()) for route in shown for method in route.methods}
    routes |= {(path, "post") for path in BY_PATH}
    described = {(path, method) for path, item in document("x")["paths"].items() for method in item}
    assert described == routes


async def test_it_is_served_to_whoever_asks(served):
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
        answer = await client.get("/openapi.json")
    assert answer.status_code == 200 and answer.json()["openapi"].startswith("3.1")
    assert answer.json()["paths"].keys() == document("x")["paths"].keys()


def for_one_model():
    """The document of a gateway whose only model is ``tiny``, so that what is drawn from it reaches the engine."""
    described = msgspec.json.decode(msgspec.json.encode(document("x")))
    for schema in described["components"]["schemas"].values():
        if "model" in schema["properties"]:
            schema["properties"]["model"] = {"enum": ["tiny"]}
    return described


@pytest.mark.slow
async def test_what_is_drawn_from_the_document_meets_no_5xx_and_nothing_undocumented(gateway, tmp_path):
    path = tmp_path / "openapi.json"
    path.write_bytes(msgspec.json.encode(for_one_model()))
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", str(path), "--url", gateway.url, "--no-color"),
        *("--checks", CHECKS, "--max-examples", "5", "--seed", "1", "--workers", "1", "--request-timeout", "20"),
        *("--header", "Authorization: Bearer hr_operator", "--phases", "coverage,fuzzing"),
        # a drawn version is one that no worker holds, and the only worker out of rotation serves nothing: the rest would be 503
        *("--exclude-path", "/v1/lanes", "--exclude-path", "/v1/workers/{worker_id}/out"),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output.decode()[-6000:]
    assert gateway.engine.calls
