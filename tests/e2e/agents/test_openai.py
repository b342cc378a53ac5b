"""The OpenAI SDK, unmodified, against real SGLang behind the gateway: what it sees, and what is recorded of it."""

import asyncio
import re
from collections.abc import Iterator

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from examples.openai_sdk import agent as example
from examples.orders import QUESTIONS, SYSTEM
from tests.e2e import oracle
from tests.e2e.agents.recorded import Desk

pytestmark = [pytest.mark.e2e, pytest.mark.engine]

SHOWN = re.compile(r"^  \[((?:chatcmpl-|resp_)\w+) (\w+)\]$", re.MULTILINE)
UNDER_A_GRAMMAR = "sampling_grammar"  # strict tools, forced calls, structured output
FIRST: list[ChatCompletionMessageParam] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTIONS[0]}]


@pytest.fixture
def key(desk: Desk, request: pytest.FixtureRequest) -> str:
    return desk.new_key(request.node.name)


@pytest.fixture
def client(desk: Desk, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{desk.stack.gateway}/v1", api_key=key, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_example_works_through_its_questions(
    desk: Desk, key: str, api: str, stream: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--base-url", f"{desk.stack.gateway}/v1", "--api-key", key]
    example.main([*where, "--api", api, *(["--stream"] if stream else [])])
    shown = capsys.readouterr().out
    assert 'order_status({"order": 4821}) -> {"order": 4821, "status": "in transit", "arrives": "Thursday"}' in shown
    assert "desk: Order 1177 was delivered. Order 2090 is lost." in shown
    assert 'refund({"order": 2090, "reason": "lost"}) -> {"order": 2090, "refunded": true}' in shown
    assert "filed: orders=[4821, 1177, 2090] refunded=[2090]" in shown
    ids, reasons = zip(*SHOWN.findall(shown), strict=True)
    calls_then_stops = ["tool_calls", "stop"] * 3 + ["stop"]
    assert list(reasons) == (calls_then_stops if api == "chat" else ["completed"] * 7)
    decisions = [UNDER_A_GRAMMAR] * 7 if api == "chat" else ["eligible"] * 6 + [UNDER_A_GRAMMAR]
    events = desk.conversation(list(ids), decisions)
    assert all(event.session_id for event in events)
    desk.assert_rewards_reach(ids[-1], key)


async def test_conversations_at_once_on_one_key_stay_apart(desk: Desk, key: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{desk.stack.gateway}/v1", api_key=key, max_retries=0) as client:
        held = await asyncio.gather(*(two_turns(client, desk.stack.model, f"You are desk {number}.") for number in range(3)))
    trajectories = {desk.conversation(ids)[0].trajectory_id for ids in held}
    assert len(trajectories) == 3


async def two_turns(client: openai.AsyncOpenAI, model: str, system: str) -> list[str]:
    """Ask twice, streaming; the ids of the answers."""
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": system}]
    ids = []
    for question in ("Where is order 4821?", "Sum up."):
        messages.append({"role": "user", "content": question})
        text = ""
        stream = await client.chat.completions.create(
            model=model, messages=messages, stream=True, max_tokens=40, stream_options={"include_usage": True}
        )
        usage = None
        async for chunk in stream:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        assert usage is not None and usage.completion_tokens > 0
        messages.append({"role": "assistant", "content": text})
        ids.append(chunk.id)
    return ids


def test_a_named_session_and_raw_headers(desk: Desk, client: openai.OpenAI) -> None:
    named = client.with_options(default_headers={"x-session-id": "desk-7"})
    raw = named.chat.completions.with_raw_response.create(model=desk.stack.model, messages=FIRST, max_tokens=8)
    answer = raw.parse()
    assert raw.headers["content-type"] == "application/json" and "x-headrace-record" not in raw.headers
    assert "headrace_record" not in (answer.model_extra or {})
    [event] = desk.conversation([answer.id])
    assert event.session_id == "desk-7"


def test_a_forced_call_is_a_call(desk: Desk, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=desk.stack.model, messages=FIRST, tools=example.CHAT_TOOLS, tool_choice="required", parallel_tool_calls=False,
        max_tokens=64,
    )  # fmt: skip
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function" and (call.function.name, call.function.arguments) == ("order_status", '{"order": 4821}')
    assert answer.choices[0].finish_reason == "tool_calls"
    desk.conversation([answer.id], [UNDER_A_GRAMMAR])


def test_the_models_are_listed_page_by_page_and_one_by_one(desk: Desk, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [desk.stack.model]
    assert client.models.retrieve(desk.stack.model).id == desk.stack.model


def test_errors_are_the_sdks_own(desk: Desk, client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="hr_wrong").models.list()
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=FIRST)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=desk.stack.model, input="x", previous_response_id="resp_" + "0" * 48)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=desk.stack.model, messages=FIRST, max_tokens=-1)


async def test_a_refused_call_is_tried_again_by_the_sdk_when_it_was_told_to(desk: Desk) -> None:
    statuses: list[int] = []

    async def note(response: httpx.Response) -> None:
        statuses.append(response.status_code)

    key = desk.new_key("hurried", requests_per_minute=20)
    http_client = openai.DefaultAsyncHttpxClient(event_hooks={"response": [note]})
    async with openai.AsyncOpenAI(
        base_url=f"{desk.stack.gateway}/v1", api_key=key, max_retries=5, http_client=http_client
    ) as client:
        calls = [client.chat.completions.create(model=desk.stack.model, messages=FIRST, max_tokens=1) for _ in range(21)]
        answers = await asyncio.gather(*calls)
    assert len({answer.id for answer in answers}) == 21
    assert 429 in statuses and statuses.count(200) == 21


def test_a_time_out_of_the_sdk_ends_the_call_in_the_engine(desk: Desk, client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=1.0).chat.completions.create(
            model=desk.stack.model, messages=FIRST, max_tokens=30_000, extra_body={"ignore_eos": True}
        )
    oracle.until(lambda: desk.num_running() == 0, "the end of the call", desk.stack)
    query = "SELECT delivery FROM event WHERE agent = 'test_a_time_out_of_the_sdk_ends_the_call_in_the_engine'"
    oracle.until(lambda: bool(oracle.rows(desk.stack, query)), "its event", desk.stack)
    assert oracle.rows(desk.stack, query) == [("disconnected",)]


def test_a_stored_response_can_be_read_again(desk: Desk, client: openai.OpenAI) -> None:
    made = client.responses.create(model=desk.stack.model, input=QUESTIONS[0], max_output_tokens=16)
    assert client.responses.retrieve(made.id).output_text == made.output_text
    desk.conversation([made.id])
