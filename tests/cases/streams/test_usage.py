"""Token counts in streams: where they are asked for and nowhere else."""

import json
from typing import Any

import pytest

from tests.cases.edge import Edge
from tests.cases.speech import CHAT, COMPLETIONS, Speech
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_ASKED: list[dict[str, Any]] = [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}]


async def chunks(edge: Edge, speech: Speech, **more: Any) -> list[Any]:
    """The chunks of a stream up to its end."""
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True, **more))
    _, body = await wire.answer()
    *events, end = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
    assert end == b"[DONE]"
    return [json.loads(one) for one in events]


@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS], ids=lambda speech: speech.name)
@pytest.mark.parametrize("n", [1, 2])
async def test_usage_that_is_asked_for_is_the_last_chunk_and_has_no_choices(
    edge: Edge, engine: FakeEngine, speech: Speech, n: int
) -> None:
    *before, last = await chunks(edge, speech, n=n, stream_options={"include_usage": True})
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == n * (len("hello") + 1)
    assert all(one["choices"] and not one.get("usage") for one in before)


@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS], ids=lambda speech: speech.name)
@pytest.mark.parametrize("options", NOT_ASKED)
async def test_usage_that_is_not_asked_for_is_nowhere(
    edge: Edge, engine: FakeEngine, speech: Speech, options: dict[str, Any]
) -> None:
    assert all(one["choices"] and not one.get("usage") for one in await chunks(edge, speech, **options))
