"""The door for browsers: a TCP port, loopback by default, that passes /console on to the data proxy's socket, and nothing else.

It runs while somebody asked for it (``headrace console``). It answers only to the names that it was told, so that no page of
another site reaches it under a name of its own (DNS rebinding), and says to the data proxy who came and how.
"""

import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from atdp.cookies import no_cookies

_MOST_BYTES = 64 << 10
_NOT_PASSED = frozenset(
    (
        *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization"),
        *("authorization", "forwarded"),
    )
)
_OURS = ("x-forwarded-", "x-headrace-")
_METHODS = ["GET", "HEAD", "POST"]


def create_relay(data_proxy: Path, names: Collection[str], https: bool = False) -> Starlette:
    """The app in front of the socket ``data_proxy``; ``names`` are the hosts (with port) it answers to.

    ``https``: a proxy in front of it ends TLS, so cookies are for HTTPS alone.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # A connection each: one that is kept may be let go by the data proxy at the moment in which it is used again.
        transport = httpx.AsyncHTTPTransport(uds=str(data_proxy), limits=httpx.Limits(max_keepalive_connections=0))
        async with httpx.AsyncClient(transport=transport, timeout=600, cookies=no_cookies()) as client:
            app.state.client = client
            yield

    async def relay(request: Request) -> Response:
        host = request.headers.get("host", "")
        if host not in names:
            return PlainTextResponse(f"This console is at {', '.join(sorted(names))}.\n", 421)
        if int(request.headers.get("content-length") or 0) > _MOST_BYTES:
            return PlainTextResponse("The form is too large.\n", 413)
        client: httpx.AsyncClient = request.app.state.client
        sent = [(k, v) for k, v in request.headers.items() if k not in _NOT_PASSED and not k.startswith(_OURS)]
        peer = request.client.host if request.client is not None else ""
        sent += [("x-forwarded-for", peer), ("x-forwarded-proto", "https" if https else "http")]
        url = httpx.URL("http://data-proxy", raw_path=request.scope["raw_path"] + b"?" + request.scope["query_string"])
        try:
            asked = client.build_request(request.method, url, headers=sent, content=await request.body())
            answer = await client.send(asked, stream=True)
        except httpx.TransportError:
            return PlainTextResponse("The data proxy does not answer right now; `headrace status` says what runs.\n", 503)
        back = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
        back.raw_headers = [(k, v) for k, v in answer.headers.raw if k.lower().decode("latin-1") not in _NOT_PASSED]
        return back

    async def home(_: Request) -> Response:
        return RedirectResponse("/console/", 303)

    routes = [Route("/", home), Route("/console", home), Route("/console/{path:path}", relay, methods=_METHODS)]
    return Starlette(routes=routes, lifespan=lifespan)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(64)
    return listener


def server_on(app: Starlette) -> uvicorn.Server:
    """A server for a listener of ``listen``: ``server.run(sockets=[listener])``."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", proxy_headers=False, server_header=False)
    return uvicorn.Server(config)
