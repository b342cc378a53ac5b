"""What extends an earlier turn and what does not, case by case, each with its counted reason."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.workers.inference.continuity.engine import TOOLS, Engine, Exchange
from tests.workers.inference.continuity.families import (
    CHATML_PIECES,
    LLAMA3_1,
    MISTRAL,
    QWEN2_5,
    QWEN3,
    QWEN3_2507,
    SMOLLM2,
    Draft,
    Family,
)
from tests.workers.inference.continuity.oracle import check

USER = {"role": "user", "content": "Where is it?"}
MORE = {"role": "user", "content": "And then?"}
CALL = Draft("Let me look.", (("search", {"query": "a", "limit": 1}),), "I should look.")
TELL = Draft("It is here.", reasoning="I know.")


def result(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": "found"} for call in answer["tool_calls"]]


def second(engine: Engine, echo: dict[str, Any], new: list[dict[str, Any]], first: Exchange, **options: Any) -> Exchange:
    """The next call of the same session, with the first answer as `echo`; checked against the oracle."""
    exchange = engine.ask([USER, echo, *new], TELL, **options)
    check(exchange, [first], engine.family)
    return exchange


def reasons(engine: Engine) -> dict[str, int]:
    rendered: dict[str, int] = dict(engine.continuity.counts()["rendered"])
    del rendered["first_turn"]
    return rendered


ECHOES = {
    "as it came": lambda answer: answer,
    "reasoning left out": lambda answer: {key: value for key, value in answer.items() if key != "reasoning_content"},
    "reasoning in the text": lambda answer: {
        **{key: value for key, value in answer.items() if key != "reasoning_content"},
        "content": f"<think>\n{answer['reasoning_content']}\n</think>\n\n{answer['content']}",
    },
    "arguments as an object": lambda answer: with_arguments(answer, json.loads(answer["tool_calls"][0]["function"]["arguments"])),
    "keys in another order": lambda answer: with_arguments(answer, '{"limit":1,\n "query":"\\u0061"}'),
    "a number written otherwise": lambda answer: with_arguments(answer, '{"query": "a", "limit": 1.0}'),
    "white space around the text": lambda answer: {**answer, "content": f"\n{answer['content']} "},
    "text as parts": lambda answer: {**answer, "content": [{"type": "text", "text": answer["content"]}]},
}  # fmt: skip


def with_arguments(answer: dict[str, Any], arguments: Any) -> dict[str, Any]:
    echo = copy.deepcopy(answer)
    echo["tool_calls"][0]["function"]["arguments"] = arguments
    return echo


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_that_says_the_same_is_the_same_turn(echo: str) -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    assert second(engine, ECHOES[echo](first.answer), result(first.answer), first).is_extended


EDITS = {
    "other text": lambda answer: {**answer, "content": "No."},
    "other arguments": lambda answer: with_arguments(answer, '{"query": "a", "limit": true}'),
    "a call left out": lambda answer: {**answer, "tool_calls": []},
    "a call's id changed": lambda answer: {**answer, "tool_calls": [{**answer["tool_calls"][0], "id": "call_mine"}]},
    "arguments that are no JSON": lambda answer: with_arguments(answer, ["{"]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_answer_is_rendered(edit: str) -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    assert not second(engine, EDITS[edit](first.answer), result(first.answer), first).is_extended
    assert reasons(engine) == {"edited_answer": 1}


def test_null_and_empty_content_are_one() -> None:
    engine = Engine(QWEN2_5)
    first = engine.ask([USER], Draft(calls=CALL.calls))
    assert first.answer["content"] is None
    assert second(engine, {**first.answer, "content": ""}, result(first.answer), first).is_extended


def test_history_edited_further_up_is_rendered() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    exchange = engine.ask([{**USER, "content": "Where was it?"}, first.answer, *result(first.answer)], TELL)
    assert not exchange.is_extended
    assert reasons(engine) == {"unknown_history": 1}


def test_other_tools_are_another_chain() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    assert not second(engine, first.answer, result(first.answer), first, tools=TOOLS[:1]).is_extended
    assert reasons(engine) == {"other_context": 1}


def test_other_template_arguments_are_another_chain() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    assert not second(engine, first.answer, result(first.answer), first, kwargs={"enable_thinking": False}).is_extended
    assert reasons(engine) == {"other_context": 1}


def test_tenants_never_share() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL, salt="one")
    assert not second(engine, first.answer, result(first.answer), first, salt="other").is_extended
    assert reasons(engine) == {"unknown_history": 1}


@pytest.mark.parametrize(
    ("finish", "stop", "reason"),
    [("length", None, "truncated"), ("stop", "STOP", "stopped_by_string"), ("stop", 300, "other_stop_token")],
)
def test_an_answer_that_did_not_end_by_itself_is_rendered(finish: str, stop: int | str | None, reason: str) -> None:
    engine = Engine(QWEN2_5)
    first = engine.ask([USER], TELL, finish=finish, stop=stop)
    assert not second(engine, first.answer, [MORE], first).is_extended
    assert reasons(engine) == {reason: 1}


def test_after_a_cut_answer_the_turn_before_it_is_extended() -> None:
    engine = Engine(QWEN2_5)
    first = engine.ask([USER], CALL)
    second = engine.ask([USER, first.answer, *result(first.answer)], TELL, finish="length")
    third = engine.ask([USER, first.answer, *result(first.answer), second.answer, MORE], TELL)
    assert third.is_extended
    check(third, [first], QWEN2_5)
    assert engine.continuity.counts()["passed_over"] == {"truncated": 1}


def test_answers_that_read_the_same_but_were_sampled_differently_are_ambiguous() -> None:
    engine = Engine(SMOLLM2)
    first = engine.ask([USER], Draft("It is right here, in the answer."), num_choices=2)
    assert not second(engine, first.answer, [MORE], first).is_extended
    assert reasons(engine) == {"ambiguous_sibling": 1}


def test_the_call_ids_tell_which_of_two_equal_answers_was_taken() -> None:
    engine = Engine(QWEN2_5)
    first, other = engine.ask([USER], CALL), engine.ask([USER], CALL)
    assert first.output_ids != other.output_ids
    for taken in (first, other):
        exchange = second(engine, taken.answer, result(taken.answer), taken)
        assert exchange.prompt_ids[: len(taken.ids)] == taken.ids


def test_a_branch_from_the_middle_extends_the_turn_it_branches_from() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    history = [USER, first.answer, *result(first.answer)]
    one = engine.ask(history, TELL)
    other = engine.ask(history, CALL)
    for taken, new in ((one, [MORE]), (other, result(other.answer))):
        exchange = engine.ask([*history, taken.answer, *new], TELL)
        check(exchange, [taken], QWEN3)
        assert exchange.is_extended


def test_a_history_compacted_by_its_agent_is_a_new_branch() -> None:
    engine = Engine(QWEN3)
    first = engine.ask([USER], CALL)
    engine.ask([USER, first.answer, *result(first.answer)], TELL)
    exchange = engine.ask(
        [{"role": "user", "content": "Summary: it was found."}, {"role": "assistant", "content": "Good."}, MORE], TELL
    )
    assert not exchange.is_extended
    check(exchange, [], QWEN3)


def test_a_prompt_beyond_the_context_is_rendered() -> None:
    engine = Engine(QWEN3, context_len=650)
    first = engine.ask([USER], Draft("It is here.", reasoning="so " * 75))
    assert 600 < len(first.ids) < 650
    exchange = second(engine, {"role": "assistant", "content": "It is here."}, [MORE], first)
    assert not exchange.is_extended
    assert reasons(engine) == {"too_long": 1}


def test_images_are_rendered() -> None:
    engine = Engine(QWEN2_5)
    part = {"type": "image_url", "image_url": {"url": "data:"}}
    assert not second_with_image(engine, part).is_extended
    assert engine.continuity.counts()["rendered"] == {"first_turn": 1, "not_text": 1}


def second_with_image(engine: Engine, part: dict[str, Any]) -> Exchange:
    first = engine.ask([USER], Draft("It is here."), tools=None)
    engine.family.tokenizer.chat_template = "{% for message in messages %}{{ message.content | string }}{% endfor %}"
    try:
        return engine.ask([USER, first.answer, {"role": "user", "content": [part]}], TELL, tools=None)
    finally:
        engine.family.tokenizer.chat_template = engine.family.template


@pytest.mark.parametrize("family", [SMOLLM2, QWEN3, LLAMA3_1, MISTRAL], ids=lambda family: family.name)
def test_the_stop_token_is_counted_once_and_the_separator_after_it_kept(family: Family) -> None:
    engine = Engine(family)
    first = engine.ask([USER], Draft("It is here.", reasoning="Hm."))
    exchange = second(engine, first.answer, [MORE], first)
    suffix = family.decode(exchange.prompt_ids[len(first.ids) :])
    assert exchange.is_extended
    assert not suffix.startswith(family.stop)
    assert suffix.startswith(
        {"<|im_end|>": "\n<|im_start|>user", "<|eot_id|>": "<|start_header_id|>user", "</s>": "[INST]"}[family.stop]
    )


def test_the_suffix_is_encoded_as_in_the_middle_of_a_text() -> None:
    """A sentencepiece tokenizer puts a space before a text: not before what follows a stop token."""
    engine = Engine(CHATML_PIECES)
    tokenizer = engine.family.tokenizer
    assert tokenizer.encode("\n") != tokenizer.encode("<|im_end|>\n")[1:]
    first = engine.ask([USER], Draft("It is here."), tools=None)
    assert second(engine, first.answer, [MORE], first, tools=None).is_extended


def test_reasoning_opened_by_the_generation_prompt_is_kept_once() -> None:
    engine = Engine(QWEN3_2507)
    first = engine.ask([USER], TELL)
    exchange = second(engine, {"role": "assistant", "content": "It is here."}, [MORE], first)
    assert exchange.is_extended
    assert QWEN3_2507.decode(exchange.prompt_ids).count("<think>\nI know.\n</think>\n\nIt is here.<|im_end|>") == 1


def test_a_template_that_dates_its_prompt_is_rendered_after_midnight() -> None:
    engine = Engine(LLAMA3_1)
    first = engine.ask([USER], TELL)
    with template_of(engine, "26 Jul 2024", "27 Jul 2024"):
        assert not second(engine, first.answer, [MORE], first).is_extended
    assert reasons(engine) == {"history_rewritten": 1}


def test_a_template_that_rewrites_old_answers_is_rendered() -> None:
    engine = Engine(QWEN2_5)
    short = "('gone' if message.role == 'assistant' and loop.index0 < messages|length - 3 else message.content)"
    with template_of(engine, "message.role + '\\n' + message.content", f"message.role + '\\n' + {short}"):
        exchanges: list[Exchange] = []
        messages = [USER]
        for _ in range(3):
            exchanges.append(engine.ask(messages, Draft("It is here."), tools=None))
            messages = [*messages, exchanges[-1].answer, MORE]
    assert [exchange.is_extended for exchange in exchanges] == [False, True, False]
    assert reasons(engine) == {"history_rewritten": 1}


def test_a_template_that_numbers_its_messages_is_trusted_only_where_the_dummy_agrees() -> None:
    engine = Engine(QWEN2_5)
    numbered = "(loop.index | string if message.role == 'user' else '') + message.role"
    with template_of(engine, "'<|im_start|>' + message.role", f"'<|im_start|>' + {numbered}"):
        first = engine.ask([USER], TELL)
        exchange = engine.ask([USER, first.answer, MORE], TELL)
        third = engine.ask([USER, first.answer, MORE, exchange.answer, MORE], TELL)
    check(third, [first], QWEN2_5)  # the dummy is as long as the history before the first answer, not the second
    assert engine.continuity.counts()["passed_over"] == {"suffix_differs": 1}


def test_a_template_that_writes_nothing_for_an_empty_answer_is_rendered() -> None:
    engine = Engine(MISTRAL)
    with template_of(engine, "{{- eos_token }}", "{{- eos_token if message['content'] or message['tool_calls'] }}"):
        first = engine.ask([USER], Draft())
        cut = engine.ask([USER, first.answer, MORE], Draft("It is"), finish="length")
        exchange = engine.ask([USER, first.answer, MORE, cut.answer, MORE], TELL)
    assert not exchange.is_extended
    check(exchange, [first, cut], MISTRAL)


@contextmanager
def template_of(engine: Engine, old: str, new: str) -> Iterator[None]:
    """The engine's template with one change."""
    assert old in engine.family.template
    engine.family.tokenizer.chat_template = engine.family.template.replace(old, new)
    try:
        yield
    finally:
        engine.family.tokenizer.chat_template = engine.family.template


def test_kept_turns_stay_within_their_budget_and_the_oldest_go_first() -> None:
    engine = Engine(SMOLLM2, budget_bytes=40_000)
    firsts = [engine.ask([{"role": "user", "content": f"Question {number}"}], Draft("Yes.")) for number in range(60)]
    assert engine.continuity.counts()["size_bytes"] <= 40_000
    latest = engine.ask([{"role": "user", "content": "Question 59"}, firsts[-1].answer, MORE], TELL)
    oldest = engine.ask([{"role": "user", "content": "Question 0"}, firsts[0].answer, MORE], TELL)
    assert latest.is_extended
    assert not oldest.is_extended
