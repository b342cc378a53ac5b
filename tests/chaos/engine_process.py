"""``python -m tests.chaos.engine_process WEIGHTS VERSION PORT``: the fake engine as a process of its own, which can die.

Each token after the first takes long enough for a call to be in flight whenever it does.
"""

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn
from safetensors.torch import load_file

from tests.fakes.engine import FakeEngine

TOKEN_S = 0.05


async def serve(weights: Path, version: str, port: int) -> None:
    """Until it is killed."""
    engine = FakeEngine()
    engine.model.weights.tensors, engine.model.version = load_file(weights), version
    engine.model.token_gate = lambda: asyncio.sleep(TOKEN_S)
    config = uvicorn.Config(engine.app(), log_config=None, access_log=False, lifespan="off")
    await uvicorn.Server(config).serve(sockets=[socket.create_server(("127.0.0.1", port))])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
