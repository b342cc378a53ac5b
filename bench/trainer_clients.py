"""Clients that stream without end, for ``bench.trainer_swap``: ``python -m bench.trainer_clients URL LOG STREAMS``.

Each keeps a stream open, asks anew when it ended, and writes down when it asked, when each piece came, and how the answer ended.
It asks as the gateway does for an agent whose calls are trained on.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

import httpx

from bench.engine import MODEL_NAME

Kind = Literal["asked", "piece", "length", "broken"]
ENDED: Final = ("length", "broken")
_PIECE: Final = 'data: {"id":'
_TOKENS: Final = 600
_PATIENCE_S: Final = 60.0


@dataclass(slots=True, frozen=True)
class Seen:
    """Something that the client of a stream saw, `at` seconds of the machine's monotonic clock.

    An answer ended by its `length`, as asked for, or it is `broken`: aborted, refused, or cut off.
    """

    stream: int
    at: float
    kind: Kind


def follow(log: Path) -> Callable[[], list[Seen]]:
    """Gives a function that says what the clients have written so far, in order. Each line is read once: reading disturbs them."""
    seen: list[Seen] = []
    end = 0

    def look() -> list[Seen]:
        nonlocal end
        with log.open("rb") as file:
            file.seek(end)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]  # the last line may be half written
        end += len(whole)
        for line in whole.decode().splitlines():
            stream, at, kind = line.split()
            seen.append(Seen(int(stream), float(at), kind))  # type: ignore[arg-type]  # written below
        return seen

    return look


async def stream_forever(url: str, log: Path, streams: int) -> None:
    """So many clients, until the process is ended."""
    limits = httpx.Limits(max_connections=streams)
    with log.open("a", buffering=1) as output:
        async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_S, limits=limits, trust_env=False) as client:

            async def one(stream: int) -> None:
                def note(kind: Kind) -> None:
                    output.write(f"{stream} {time.monotonic()} {kind}\n")

                for number in range(sys.maxsize):
                    note("asked")
                    note(await _answer(client, f"stream {stream}, question {number}", lambda: note("piece")))

            async with asyncio.TaskGroup() as group:
                for stream in range(streams):
                    group.create_task(one(stream))


async def _answer(client: httpx.AsyncClient, question: str, piece: Callable[[], None]) -> Kind:
    """One streamed answer, and how it ended for its client."""
    messages = [{"role": "user", "content": question}]
    body = {
        "model": MODEL_NAME,
        "messages": messages,
        "max_tokens": _TOKENS,
        "temperature": 1.0,
        "ignore_eos": True,
        "stream": True,
    }
    headers = {"x-headrace-record": "1", "x-headrace-rid": f"chatcmpl-{uuid4().hex}"}
    ended: Kind = "broken"
    with contextlib.suppress(httpx.HTTPError):
        async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line.startswith(_PIECE):
                    piece()
                    if json.loads(line.removeprefix("data: "))["choices"][0]["finish_reason"] == "length":
                        ended = "length"
    return ended


if __name__ == "__main__":
    asyncio.run(stream_forever(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
