"""What a caller gets for bad input, from the whole stack, in OpenAI's error form; and good calls go on after it."""

from collections.abc import Iterator

import httpx
import pytest

from deploy.launcher.running import RunningStack
from tests.e2e.conftest import TappedStack

pytestmark = pytest.mark.e2e

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def stack(tapped_stack: TappedStack) -> RunningStack:
    return tapped_stack.stack


@pytest.fixture(scope="module")
def caller(stack: RunningStack) -> Iterator[httpx.Client]:
    key = stack.new_agent("clumsy", "bot", training=False, reason="bad input test")
    with httpx.Client(base_url=stack.gateway, headers={"authorization": f"Bearer {key}"}, timeout=60) as client:
        yield client


def body(stack: RunningStack, **changes: object) -> dict[str, object]:
    return {"model": stack.model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, **changes}


def assert_openai_error(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"} and error["message"]
    assert answer.headers["x-headrace-error"]


def test_a_wrong_key_is_401(stack: RunningStack, caller: httpx.Client) -> None:
    assert_openai_error(caller.post(CHAT, json=body(stack), headers={"authorization": "Bearer hr_wrong"}), 401)


def test_an_unknown_model_is_404(stack: RunningStack, caller: httpx.Client) -> None:
    assert_openai_error(caller.post(CHAT, json=body(stack, model="gpt-9")), 404)


def test_malformed_json_is_400(caller: httpx.Client) -> None:
    assert_openai_error(caller.post(CHAT, content=b'{"model": '), 400)


def test_an_oversized_body_is_413(stack: RunningStack, caller: httpx.Client) -> None:
    assert_openai_error(caller.post(CHAT, json=body(stack, padding="x" * (17 << 20))), 413)


def test_good_calls_go_on_after_twenty_bad_ones(stack: RunningStack, caller: httpx.Client) -> None:
    for _ in range(20):
        assert caller.post(CHAT, json=body(stack, temperature="hot")).status_code == 400
    answer = caller.post(CHAT, json=body(stack))
    assert answer.status_code == 200
    assert answer.json()["id"].startswith("chatcmpl-") and answer.headers["x-headrace-event"] in answer.json()["id"]
