"""The Anthropic SDK, unmodified, against real SGLang behind the gateway: what it sees, and what is recorded of it."""

import re
from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import MessageParam

from examples.anthropic_sdk import agent as example
from examples.orders import QUESTIONS
from tests.e2e.agents.recorded import Desk

pytestmark = [pytest.mark.e2e, pytest.mark.engine]

SHOWN = re.compile(r"^  \[(msg_\w+) (\w+), (\d+) \+ (\d+) tokens\]$", re.MULTILINE)
FIRST: list[MessageParam] = [{"role": "user", "content": QUESTIONS[0]}]


@pytest.fixture
def key(desk: Desk, request: pytest.FixtureRequest) -> str:
    return desk.new_key(request.node.name)


@pytest.fixture
def client(desk: Desk, key: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=desk.stack.gateway, api_key=key, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_the_example_works_through_its_questions(desk: Desk, key: str, stream: bool, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(["--base-url", desk.stack.gateway, "--api-key", key, *(["--stream"] if stream else [])])
    shown = capsys.readouterr().out
    assert "order_status({'order': 4821}) -> " in shown
    assert "desk: Order 1177 was delivered. Order 2090 is lost." in shown
    assert "refund({'order': 2090, 'reason': 'lost'}) -> " in shown
    ids, reasons, read, written = zip(*SHOWN.findall(shown), strict=True)
    assert list(reasons) == ["tool_use", "end_turn"] * 3
    desk.conversation(list(ids))
    for message_id, num_read, num_written in zip(ids, read, written, strict=True):
        tapped = desk.tapped(message_id)
        assert (len(tapped.prompt_ids), len(tapped.output_ids)) == (int(num_read), int(num_written))
    desk.assert_rewards_reach(ids[-1], key)


def test_tokens_are_counted_as_they_are_billed(desk: Desk, client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(
        model=desk.stack.model, system=example.SYSTEM_BLOCKS, tools=example.MESSAGE_TOOLS, messages=FIRST
    )
    message = client.messages.create(
        model=desk.stack.model, system=example.SYSTEM_BLOCKS, tools=example.MESSAGE_TOOLS, messages=FIRST, max_tokens=4
    )
    assert message.stop_reason == "max_tokens"
    assert counted.input_tokens == message.usage.input_tokens
    desk.conversation([message.id])


async def test_the_asynchronous_client_with_a_forced_tool(desk: Desk, key: str) -> None:
    async with (
        anthropic.AsyncAnthropic(base_url=desk.stack.gateway, api_key=key, max_retries=0) as client,
        client.messages.stream(
            model=desk.stack.model, tools=example.MESSAGE_TOOLS, messages=FIRST, max_tokens=64, tool_choice={"type": "any"}
        ) as stream,
    ):
        message = await stream.get_final_message()
    [block] = [block for block in message.content if block.type == "tool_use"]
    assert (block.name, block.input, message.stop_reason) == ("order_status", {"order": 4821}, "tool_use")
    desk.conversation([message.id], decisions=["sampling_grammar"])


def test_a_bearer_token_serves_as_well_as_an_api_key(desk: Desk, key: str) -> None:
    with anthropic.Anthropic(base_url=desk.stack.gateway, auth_token=key, api_key=None, max_retries=0) as client:
        message = client.messages.create(model=desk.stack.model, messages=FIRST, max_tokens=4)
    desk.conversation([message.id])


def test_the_models_are_listed(desk: Desk, client: anthropic.Anthropic) -> None:
    assert [model.id for model in client.models.list()] == [desk.stack.model]


def test_errors_are_the_sdks_own(desk: Desk, client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.AuthenticationError) as refused:
        client.with_options(api_key="hr_wrong").messages.create(model=desk.stack.model, messages=FIRST, max_tokens=4)
    assert refused.value.type == "authentication_error"
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="no-such-model", messages=FIRST, max_tokens=4)
    assert missing.value.type == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model=desk.stack.model, messages=[{"role": "nobody", "content": "x"}], max_tokens=4)  # type: ignore[typeddict-item]
