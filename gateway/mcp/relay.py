"""``/mcp/{name}``: POST, GET and DELETE of MCP's streamable HTTP, relayed as they come. The caller's key stays here.

A chunk goes on when it comes; only the end of an answer that is on record waits until it is durable.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

import httpx
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from atdp.cookies import no_cookies
from gateway.bodies import read_body
from gateway.errors import Refused
from gateway.headers import header, recorded_headers
from gateway.keys import Identity
from gateway.mcp.messages import Watcher, requests_in
from gateway.mcp.recording import Asked, Recording
from gateway.mcp.servers import McpServer
from gateway.sessions import header_session
from gateway.state import Gateway
from gateway.upstream.connection import Headers

_PASSED: Final = (b"content-type", b"accept", b"last-event-id", b"user-agent", b"traceparent", b"tracestate", b"baggage")
_BACK: Final = frozenset(("content-type", "content-encoding", "cache-control", "retry-after", "allow"))
_MCP: Final = "mcp-"


class McpRelay:
    """Relays to ``servers``; one client for all of them, closed when the gateway stops."""

    def __init__(self, gateway: Gateway, servers: dict[str, McpServer]) -> None:
        self._gateway = gateway
        self._servers = servers
        settings = gateway.settings
        timeout = httpx.Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s, read=settings.first_byte_timeout_s)
        self._http = httpx.AsyncClient(timeout=timeout, follow_redirects=False, trust_env=False, cookies=no_cookies())

    def server(self, name: str, tenant: str) -> McpServer | None:
        """The server of that name, if ``tenant`` may call it."""
        found = self._servers.get(name)
        return found if found is not None and found.serves(tenant) else None

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def relay(self, request: Request, identity: Identity, server: McpServer) -> Response:
        """The server's answer to ``identity``.

        Raises:
            Refused: 4xx the body; 502 the server does not answer; 503 what must be recorded cannot be.
        """
        headers: Headers = request.scope["headers"]
        settings = self._gateway.settings
        length, encoding = header(headers, b"content-length"), header(headers, b"content-encoding")
        body = await read_body(request.receive, length, encoding, settings.max_body_bytes, settings.body_timeout_s)
        asked = Asked(identity, server.name, self._session(request, headers), recorded_headers(headers))
        recording = Recording(self._gateway, asked, requests_in(body) if request.method == "POST" else [])
        recording.begin()
        return await self._ask(request.method, server, _to_server(headers, server), body, recording)

    def _session(self, request: Request, headers: Headers) -> str:
        """The agent's own session; that of MCP is the server's, and ends with it."""
        own = header_session([one for one in headers if one[0] != b"mcp-session-id"]).decode("latin-1")
        named = request.scope.get("session", "") or own
        return self._gateway.namer.printable(named) if named else ""

    async def _ask(self, method: str, server: McpServer, headers: dict[str, str], body: bytes, recording: Recording) -> Response:
        async with AsyncExitStack() as stack:
            stack.callback(recording.abandon, "disconnected")
            call = self._http.stream(method, server.url, headers=headers, content=body or None)
            try:
                answer = await stack.enter_async_context(call)
            except httpx.TransportError as error:
                recording.abandon("upstream_error", error=type(error).__name__)
                raise Refused(502, "mcp_server_lost", f"the MCP server {server.name} does not answer; is it running?") from error
            if answer.status_code in (401, 403):
                recording.abandon("upstream_error", answer.status_code, "the server refuses the gateway's credentials")
                raise Refused(502, "mcp_server_refuses", f"the MCP server {server.name} refuses the gateway's credentials for it")
            kept = stack.pop_all()
        sent_back = {n: v for n, v in answer.headers.items() if n in _BACK or n.startswith(_MCP)}
        return StreamingResponse(_chunks(answer, recording, kept), answer.status_code, headers=sent_back)


async def _chunks(answer: httpx.Response, recording: Recording, kept: AsyncExitStack) -> AsyncIterator[bytes]:
    """The body as it comes; what has an end is not let go before that is durable."""
    watcher = Watcher(answer.headers.get("content-type", ""))
    async with kept:
        held = b""
        try:
            async for chunk in answer.aiter_raw():
                await recording.answered(watcher.feed(chunk), answer.status_code, not watcher.holds_back)
                if watcher.holds_back:
                    held, chunk = chunk, held
                if chunk:
                    yield chunk
        except httpx.TransportError as error:
            recording.abandon("upstream_error", answer.status_code, type(error).__name__)
            raise
        await recording.answered(watcher.end(), answer.status_code, not watcher.holds_back)
        recording.abandon("upstream_error", answer.status_code, "the server's answer holds no reply")
        if held:
            yield held


def _to_server(headers: Headers, server: McpServer) -> dict[str, str]:
    """MCP's own headers and a few that do no harm; keys, cookies and hosts of ours stay. Bodies go uncompressed both ways."""
    passed = {n.decode(): v.decode("latin-1") for n, v in headers if n in _PASSED or n.startswith(_MCP.encode())}
    return {**passed, "accept-encoding": "identity", **server.headers}
