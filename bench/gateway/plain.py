"""The plain gateway, what FastAPI and httpx give in twenty lines: it relays, and does none of a gateway's duties.

``python -m bench.gateway.plain PORT ENGINE_PORT``.
"""

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse


def create_app(engine_port: int) -> FastAPI:
    """The gateway in front of the engine on ``engine_port``."""
    app = FastAPI()
    limits = httpx.Limits(max_connections=None)
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{engine_port}", timeout=60, limits=limits, trust_env=False)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        if body.get("stream"):
            upstream = await client.send(client.build_request("POST", "/v1/chat/completions", json=body), stream=True)

            async def events() -> AsyncIterator[bytes]:
                async for piece in upstream.aiter_raw():
                    yield piece
                await upstream.aclose()

            return StreamingResponse(events(), media_type="text/event-stream")
        answer = await client.post("/v1/chat/completions", json=body)
        return Response(answer.content, media_type="application/json")

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(int(sys.argv[2])), port=int(sys.argv[1]), access_log=False, log_level="error", loop="uvloop")
