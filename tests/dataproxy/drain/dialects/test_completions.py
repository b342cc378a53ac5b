"""Legacy completions in the normal form: the prompt is a user's message, each text an answer, prompts of ids stay out."""

from typing import Any

import pytest

from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import completions
from tests.dataproxy.exchanges import sse


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        ("Once", "Once"),
        (["Once"], "Once"),
        (["Once", "Twice"], [{"type": "text", "text": "Once"}, {"type": "text", "text": "Twice"}]),
        ([5, 6, 7], [{"type": "token_ids", "num_tokens": 3}]),
        ([[5, 6], [7]], [{"type": "token_ids", "num_tokens": 2}, {"type": "token_ids", "num_tokens": 1}]),
        (None, None),
    ],
)
def test_a_prompt_is_a_message_and_one_of_ids_is_only_counted(prompt: Any, content: Any) -> None:
    body = completions.request({"model": "m", "prompt": prompt, "echo": True}).body
    assert body == {"model": "m", "echo": True, "messages": [{"role": "user", "content": content}]}


def test_each_text_is_an_answer() -> None:
    choices = [{"index": i, "text": f"t{i}", "finish_reason": "length", "matched_stop": None} for i in range(2)]
    found = completions.answer({"id": "cmpl-1", "choices": choices, "usage": {"total_tokens": 3}})
    assert [choice["message"] for choice in found["choices"]] == [{"role": "assistant", "content": f"t{i}"} for i in range(2)]
    assert [choice["finish_reason"] for choice in found["choices"]] == ["length", "length"] and "text" not in found["choices"][0]


def test_streamed_texts_are_put_together_by_choice() -> None:
    chunks = [
        {"id": "cmpl-1", "choices": [{"index": 0, "text": "a", "finish_reason": None}]},
        {"id": "cmpl-1", "choices": [{"index": 1, "text": "b", "finish_reason": None}]},
        {"id": "cmpl-1", "choices": [{"index": 0, "text": "A", "finish_reason": "stop"}]},
        {"id": "cmpl-1", "choices": [], "usage": {"total_tokens": 5}},
    ]
    found = read_answer(completions, sse(*chunks, named=False) + b"data: [DONE]\n\n", stream=True)
    assert [(c["message"]["content"], c["finish_reason"]) for c in found["choices"]] == [("aA", "stop"), ("b", None)]
    assert found["usage"] == {"total_tokens": 5}
