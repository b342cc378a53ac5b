"""An agent that stops reading a stream of 390 MB: the gateway's memory stays flat, and the engine waits until it reads again."""

import asyncio

import pytest

from tests.cases.edge import Edge, eventually
from tests.cases.speech import CHAT
from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

PIECE = b"data: " + b"x" * 65_536 + b"\n\n"
NUM_PIECES = 390_000_000 // len(PIECE) + 1
MOST_BYTES = 24 << 20
"""What lies between the two: socket buffers of the kernel on both sides, and the gateway's own high-water marks."""


class Source(list[bytes]):
    """The pieces of the stream; counts those that were taken."""

    num_taken = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        for _ in range(NUM_PIECES):
            self.num_taken += 1
            yield PIECE


async def stands_still(source: Source) -> None:
    """Return once the engine gets rid of nothing more."""
    before = -1
    while source.num_taken != before:
        before = source.num_taken
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("key", ["hr_quiet", "hr_acme"], ids=["not recorded", "recorded"])
async def test_memory_is_flat_and_the_engine_waits(edge: Edge, engine: FakeEngine, key: str) -> None:
    source = Source()
    engine.script = Script(source)  # type: ignore[arg-type]
    wire = await edge.open()
    wire.ask(CHAT.path, CHAT.ask(stream=True), key=key)
    await wire.head()
    await wire.until(b"\n\n")
    before = edge.rss_bytes()
    wire.stop_reading()
    await stands_still(source)
    assert source.num_taken * len(PIECE) < MOST_BYTES < NUM_PIECES * len(PIECE)
    assert edge.rss_bytes() - before < MOST_BYTES
    other = await edge.open()
    engine.script = None
    other.ask(CHAT.path, CHAT.ask("still there?"))
    assert (await other.answer())[0].status == 200
    if key == "hr_quiet":
        wire.go_on_reading()
        size = 0
        while data := await wire.piece():
            size, wire.text = size + len(data), b""
        assert source.num_taken == NUM_PIECES
        assert edge.rss_bytes() - before < MOST_BYTES
    else:
        wire.vanish()
        await eventually(lambda: engine.disconnects == 1)
