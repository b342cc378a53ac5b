"""The official MCP client through the gateway to the official MCP server: both generations of the protocol, both answer forms."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from gateway.mcp.servers import InvalidServers, read_servers
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve
from tests.gateway.conftest import Served, run_gateway


def server_app(json_response: bool) -> Any:
    """A real MCP server with a tool that works, one that fails, one that reports progress, and a resource."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context

    server = MCPServer("orders", log_level="CRITICAL")

    @server.tool()
    def status(order: str) -> str:
        return f"{order} has shipped"

    @server.tool()
    async def slow(context: Context) -> str:  # type: ignore[type-arg]
        for step in range(3):
            await context.report_progress(step, 3)
        return "done"

    @server.tool()
    def fail() -> str:
        raise ValueError("no such order")

    @server.resource("order://{name}")
    def order(name: str) -> str:
        return f"order {name}"

    return server.streamable_http_app(json_response=json_response)


class Spy:
    """Keeps the heads that the server sees."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.heads: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.heads.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, receive, send)


@asynccontextmanager
async def gateway_before(run_dir: Path, app: Any, monkeypatch: pytest.MonkeyPatch, **entry: Any) -> AsyncIterator[Served]:
    """A gateway that knows ``app`` as ``orders``."""
    engine = FakeEngine()
    async with serve(app) as url, engine.serve() as engine_url:
        monkeypatch.setenv("ORDERS_AUTHORIZATION", "Bearer of-the-server")
        tenants = msgspec.json.encode(entry.get("tenants", [])).decode()
        (run_dir / "config" / "mcp.toml").write_text(
            f'[servers.orders]\nurl = "{url}/mcp"\ntenants = {tenants}\nheaders_env = {{authorization = "ORDERS_AUTHORIZATION"}}\n'
        )
        async with run_gateway(run_dir, engine, [engine_url]) as served:
            yield served


def transport(served: Served, http: Any) -> Any:
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(f"{served.url}/mcp/orders", http_client=http)


@asynccontextmanager
async def session_of(served: Served, generation: str, key: str = "hr_acme", **headers: str) -> AsyncIterator[Any]:
    """The official client, of the newest generation (stateless) or the one before (sessions)."""
    import httpx2
    from mcp import Client, ClientSession

    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}", **headers}, timeout=20) as http:
        if generation == "newest":
            async with Client(transport(served, http)) as client:
                yield client
            return
        async with transport(served, http) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            yield session


def recorded(served: Served) -> list[tuple[Any, Any, Any]]:
    """(request, answer, response half) of each exchange, in order."""
    journal = served.journal
    halves = [(journal.begun[event_id], half) for event_id, half in journal.finished.items()]
    return [(msgspec.json.decode(asked.body), msgspec.json.decode(got.body) if got.body else None, got) for asked, got in halves]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("generation", ["newest", "sessions"])
@pytest.mark.parametrize("json_response", [True, False])
async def test_the_official_client_works_through_the_gateway_and_its_calls_are_on_record(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, generation: str, json_response: bool
) -> None:
    from mcp import MCPError

    spy = Spy(server_app(json_response))
    async with gateway_before(run_dir, spy, monkeypatch) as served:
        async with session_of(served, generation, **{"x-session-id": "s1"}) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"status", "slow", "fail"}
            assert (await client.call_tool("status", {"order": "A-7"})).content[0].text == "A-7 has shipped"
            assert (await client.call_tool("slow", {})).content[0].text == "done"
            assert (await client.call_tool("fail", {})).is_error
            assert (await client.read_resource("order://B-1")).contents[0].text == "order B-1"
            with pytest.raises(MCPError):
                await client.read_resource("nothing://B-1")
        exchanges = recorded(served)
    methods = [asked["method"] for asked, _, _ in exchanges]
    assert methods == ["tools/call", "tools/call", "tools/call", "resources/read", "resources/read"]
    assert exchanges[0][0]["params"]["arguments"] == {"order": "A-7"}
    assert exchanges[0][1]["result"]["content"][0]["text"] == "A-7 has shipped"
    assert exchanges[2][1]["result"]["isError"] is True and "error" in exchanges[4][1]
    halves = list(served.journal.begun.values())
    assert {(half.dialect, half.path, half.model, half.session_id) for half in halves} == {("mcp", "/mcp/orders", "orders", "s1")}
    assert {(half.delivery, half.worker) for _, _, half in exchanges} == {("complete", "orders")}
    assert all(head["authorization"] == "Bearer of-the-server" for head in spy.heads)
    assert not any("hr_acme" in value for head in spy.heads for value in head.values())
    if generation == "sessions":
        assert {head["mcp-session-id"] for head in spy.heads if "mcp-session-id" in head} != set()


async def test_an_answer_waits_for_the_journal_and_is_refused_while_that_is_broken(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    app = FastAPI()

    @app.post("/mcp")
    async def mcp() -> Any:
        return {"jsonrpc": "2.0", "id": 1, "result": {}}

    async with gateway_before(run_dir, app, monkeypatch) as served, served.client() as client:
        served.journal.gate = asyncio.Event()
        call = asyncio.ensure_future(client.post("/mcp/orders", json=body))
        await served.journal.arrived()
        assert not call.done()
        served.journal.gate.set()
        assert (await call).json()["result"] == {}
        served.journal.broken = True
        refused = await client.post("/mcp/orders", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "journal_failed")
        listed = await client.post("/mcp/orders", json={**body, "method": "tools/list"})
        assert listed.status_code == 200  # nothing of it goes on record


async def test_a_stream_passes_piece_by_piece_before_its_end_is_there(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, app = asyncio.Event(), FastAPI()
    note = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
    last = b'data: {"jsonrpc":"2.0",\ndata: "id":"a","result":{}}\n\n'

    @app.post("/mcp")
    async def mcp() -> Any:
        async def pieces() -> AsyncIterator[bytes]:
            yield note
            await go_on.wait()
            yield last[:20]
            yield last[20:]

        return StreamingResponse(pieces(), media_type="text/event-stream", headers={"mcp-session-id": "m1", "set-cookie": "a=b"})

    async with gateway_before(run_dir, app, monkeypatch) as served, served.client() as client:
        body = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "x"}}
        async with client.stream("POST", "/mcp/orders", json=body) as answer:
            assert answer.headers["mcp-session-id"] == "m1" and "set-cookie" not in answer.headers
            pieces = answer.aiter_raw()
            assert await anext(pieces) == note
            assert served.journal.finished == {}
            go_on.set()
            rest = b"".join([piece async for piece in pieces])
        assert rest == last
        ((_, reply, half),) = recorded(served)
    assert reply["result"] == {} and half.stream and half.delivery == "complete"


async def test_an_agent_that_leaves_and_a_server_that_breaks_off_are_on_record(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, left = FastAPI(), asyncio.Event()

    @app.post("/mcp")
    async def mcp(request: Request) -> Any:
        name = (await request.json())["params"]["name"]

        async def pieces() -> AsyncIterator[bytes]:
            yield b": here\n\n"
            if name == "break":
                raise ConnectionResetError
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        return StreamingResponse(pieces(), media_type="text/event-stream")

    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    async with gateway_before(run_dir, app, monkeypatch) as served, served.client() as client:
        async with client.stream("POST", "/mcp/orders", json={**body, "params": {"name": "wait"}}) as answer:
            await anext(answer.aiter_raw())
        await left.wait()
        assert (await served.journal.arrived()).delivery == "disconnected"
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/mcp/orders", json={**body, "params": {"name": "break"}})
        assert (await served.journal.arrived()).delivery == "upstream_error"


async def test_servers_are_their_tenants_alone_and_their_refusals_are_not_the_agents(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FastAPI()

    @app.post("/mcp", status_code=401)
    async def mcp() -> Any:
        return {}

    async with gateway_before(run_dir, app, monkeypatch, tenants=["acme"]) as served:
        client, other, reviewer = (served.client(key) for key in ("hr_acme", "hr_other", "hr_reviewer"))
        async with client, other, reviewer:
            refused = await client.post("/mcp/orders", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (502, "mcp_server_refuses")
            codes = [(await other.post(f"/mcp/{name}", json={})).json()["error"] for name in ("orders", "none")]
            assert codes[0] == codes[1] and codes[0]["code"] == "unknown_mcp_server"
            assert (await reviewer.post("/mcp/orders", json={})).status_code == 403
            assert (await client.post("/mcp/orders", headers={"authorization": "Bearer no"}, json={})).status_code == 401
    ((_, _, half),) = recorded(served)
    assert (half.delivery, half.status) == ("upstream_error", 401)


async def test_a_servers_cookie_comes_back_to_it_from_nobody(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, seen = FastAPI(), list[str | None]()

    @app.post("/mcp")
    async def mcp(request: Request, response: Response) -> Any:
        seen.append(request.headers.get("cookie"))
        response.set_cookie("session", "of-acme")
        return {"jsonrpc": "2.0", "id": 1, "result": {}}

    async with gateway_before(run_dir, app, monkeypatch) as served:
        for key in ("hr_acme", "hr_other"):
            async with served.client(key) as client:
                assert (await client.post("/mcp/orders", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 200
    assert seen == [None, None]


@pytest.mark.slow
async def test_a_server_that_is_away_is_502_and_a_tenant_without_recording_leaves_no_record(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_before(run_dir, server_app(True), monkeypatch) as served:
        async with served.client() as client:
            path = run_dir / "config" / "mcp.toml"
            assert "orders" in read_servers(path) and "Bearer" not in repr(read_servers(path))
            listed = await client.get("/mcp/orders")
            assert listed.status_code in (400, 405, 406)  # the server's own word
        async with session_of(served, "newest", key="hr_quiet") as quiet:
            assert (await quiet.call_tool("status", {"order": "A-7"})).content[0].text == "A-7 has shipped"
        assert served.journal.begun == {}


@pytest.mark.parametrize(
    "text",
    ["[servers.a]\n", '[servers.a]\nurl = "ftp://x"\n', "[",
     '[servers.a]\nurl = "http://x"\nheaders_env = {a = "HEADRACE_NOT_SET"}\n',
     '[servers.a]\nurl = "http://x"\nkey = "secret"\n'],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_why_and_never_quotes_a_secret(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.toml"
    path.write_text(text)
    with pytest.raises(InvalidServers, match=r"mcp\.toml") as refused:
        read_servers(path, {})
    assert "secret" not in str(refused.value)


def test_no_file_is_no_server(tmp_path: Path) -> None:
    assert read_servers(tmp_path / "mcp.toml") == {}
