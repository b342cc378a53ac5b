"""The data proxy's API on a TCP port, as a process of its own that a test may kill: ``receiver.py DIRECTORY PORT``.

Prints a key for agent ``triage`` of ``acme`` once it serves. A gateway's part (checking the key, passing the body on) is left out;
``Content-Encoding`` is undone as a gateway does it.
"""

import gzip
import sys
from pathlib import Path
from typing import Any

import uvicorn

from dataproxy.api.app import create_app
from tests.dataproxy.proxy import Clock, Proxy


def main(directory: Path, port: int) -> None:
    """Serve until killed."""
    proxy = Proxy(directory, Clock())
    proxy.consent()
    app = create_app(proxy.services)

    async def plain(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope["headers"]).get(b"content-encoding") != b"gzip":
            await app(scope, receive, send)
            return
        message = {"more_body": True}
        body = b""
        while message.get("more_body"):
            message = await receive()
            body += message["body"]

        async def whole() -> Any:
            return {"type": "http.request", "body": gzip.decompress(body)}

        await app(scope, whole, send)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(proxy.key("agent"), flush=True)

    Server(uvicorn.Config(plain, port=port, log_config=None, lifespan="off")).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
