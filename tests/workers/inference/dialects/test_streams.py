"""A stream is looked into before its status goes out, and nothing of it is lost or left open."""

from collections.abc import AsyncGenerator

import pytest

from workers.inference.dialects.streams import after_first


class Source:
    """Events, and whether the generator was closed."""

    def __init__(self, *events: str) -> None:
        self.events = events
        self.num_asked = 0
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[str, None]:
        try:
            for event in self.events:
                self.num_asked += 1
                yield event
        finally:
            self.is_closed = True


async def test_it_waits_for_the_first_telling_event_and_asks_for_no_more() -> None:
    source = Source("created", "in progress", "text", "end")
    stream = await after_first(source.stream(), lambda event: event == "text")
    assert source.num_asked == 3
    assert [event async for event in stream] == ["created", "in progress", "text", "end"]
    assert source.is_closed


@pytest.mark.parametrize("events", [(), ("created",)])
async def test_a_stream_that_ends_before_it_tells_is_whole(events: tuple[str, ...]) -> None:
    source = Source(*events)
    stream = await after_first(source.stream(), lambda event: False)
    assert [event async for event in stream] == list(events)


async def test_whoever_leaves_closes_the_source() -> None:
    source = Source("a", "b", "c")
    stream = await after_first(source.stream(), lambda event: True)
    assert await anext(stream) == "a"
    await stream.aclose()
    assert source.is_closed
