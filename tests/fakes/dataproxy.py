"""A fake data proxy on a Unix socket: the key table that a gateway polls, and the feedback that it relays."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response

from tests.fakes.serving import serve


def key_row(key: str, **fields: Any) -> dict[str, Any]:
    """A row of the key table for the API key ``key``."""
    row = {"key_id": f"id-{key}", "tenant": "acme", "agent": "desk", "role": "agent", "models": [], "record": True}
    return {**row, "revoked": False, "expires_us": None, "key_hash": hashlib.sha256(key.encode()).hexdigest(), **fields}


@dataclass
class FakeDataProxy:
    """``keys`` is served as the table; ``feedback_answer`` as (status, body) for every reward, kept in ``feedback``.

    ``gaps`` were told by the gateway while ``takes_gaps``.
    """

    keys: list[dict[str, Any]] = field(default_factory=list)
    feedback_answer: tuple[int, bytes] = (200, b'{"reward_id":"r1","status":"stored"}')
    feedback: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    table_calls: list[str] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    takes_gaps: bool = True
    ingest_answer: tuple[int, bytes] = (200, b'{"receipts":[]}')
    ingested: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """(path, headers, body) of whatever came to be stored as events."""

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[None]:
        """Listen on the Unix socket at ``path`` while the context lasts."""
        app = FastAPI()

        @app.get("/v1/keys/table")
        async def table(request: Request) -> Any:
            self.table_calls.append(request.headers["authorization"])
            return Response(json.dumps(self.keys), media_type="application/json")

        @app.post("/v1/gaps")
        async def gaps(request: Request) -> Response:
            self.gaps += await request.json() if self.takes_gaps else []
            return Response(b"{}", 200 if self.takes_gaps else 503)

        @app.post("/v1/feedback")
        async def feedback(request: Request) -> Response:
            self.feedback.append((dict(request.headers), await request.body()))
            status, body = self.feedback_answer
            return Response(body, status, media_type="application/json")

        @app.post("/v1/events")
        @app.post("/v1/traces")
        async def ingest(request: Request) -> Response:
            self.ingested.append((request.url.path, dict(request.headers), await request.body()))
            status, body = self.ingest_answer
            return Response(body, status, media_type="application/json")

        async with serve(app, unix_socket=path, lifespan="off"):
            yield
