"""Both looks at an exchange, JSON and tokens, and what happens when they disagree."""

import json

import numpy as np
import pytest

from dataproxy.redact import Exchange, RedactedExchange, RedactionFailed, Redactor, TokenBytes
from dataproxy.redact.spread import Values
from tests.dataproxy.redact.encoder import MASK_ID, Encoder


def exchange(encoder: Encoder, content: str, rendered: str | None = None, answer: str = "ok", **request: object) -> Exchange:
    """A call with one user message; ``rendered`` is what the template made of it, if not the same."""
    return Exchange(
        request={"messages": [{"role": "user", "content": content}], **request},  # type: ignore[dict-item]
        response={"choices": [{"message": {"role": "assistant", "content": answer}}]},
        prompt_ids=encoder.chat(("user", content if rendered is None else rendered)),
        output_ids=[encoder.ids(answer)],
    )


def whole_text(redacted: RedactedExchange, encoder: Encoder) -> str:
    assert redacted.prompt_ids is not None
    texts = [encoder.text(redacted.prompt_ids), *map(encoder.text, redacted.output_ids)]
    return json.dumps([redacted.request, redacted.response, redacted.strings], ensure_ascii=False) + "".join(texts)


def test_a_value_of_the_text_that_the_tokens_lack_is_refused(redactor: Redactor, encoder: Encoder) -> None:
    with pytest.raises(RedactionFailed) as failure:
        redactor.redact_exchange(exchange(encoder, "mail ana@example.com", rendered="mail somebody"))
    assert failure.value.reason == "unlocated"


@pytest.mark.parametrize(
    ("content", "rendered"),
    [
        ("josé@example.com", "jos\\u00e9@example.com"),
        ("josé@example.com", "jos%C3%A9%40example.com"),
        ("ana+1@example.com", "ana&#43;1&#64;example.com"),
        ("４１１１１１１１１１１１１１１１", "4111111111111111"),
        ('{"to": "ana\\u0040example.com"}', "{'to': 'ana@example.com'}"),
        ("redis://u:p4ss@cache.example.com/a", "redis:\\/\\/u:p4ss@cache.example.com\\/a"),
    ],
)
def test_a_value_rendered_in_another_spelling_is_located_and_masked(
    redactor: Redactor, encoder: Encoder, content: str, rendered: str
) -> None:
    redacted = redactor.redact_exchange(exchange(encoder, content, rendered))
    assert redacted.prompt_altered is not None and redacted.prompt_altered.any()
    text = whole_text(redacted, encoder)
    assert all(piece not in text for piece in ("ana", "jos", "4111", "４１１", "p4ss"))


def test_a_value_seen_only_in_the_tokens_goes_from_the_text_too(redactor: Redactor, encoder: Encoder) -> None:
    # Two parts of one message, joined by the template: only there does the word for telephone stand before the digits.
    parts = [{"type": "text", "text": "my phone: "}, {"type": "text", "text": "4155550123"}]
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": [{"role": "user", "content": parts}]},  # type: ignore[dict-item]
            response={},
            prompt_ids=encoder.chat(("user", "my phone: 4155550123")),
            output_ids=[encoder.ids("ok")],
        )
    )
    assert "4155550123" not in whole_text(redacted, encoder)
    assert [span.path for span in redacted.spans] == ["/request/messages/0/content/1/text"]


@pytest.mark.parametrize("missed", ["text", "tokens"])
def test_a_value_still_readable_at_the_end_is_refused(
    redactor: Redactor, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, missed: str
) -> None:
    # Nothing known gets this far, so the search that carries values over is made blind on one side.
    monkeypatch.setattr(Values, "in_leaves" if missed == "text" else "in_bytes", lambda self, data: [])
    tool = {"name": "call", "arguments": "phone: 4155550123"} if missed == "tokens" else {"name": "4155550123"}
    words = "the 4155550123 thing" if missed == "tokens" else "my phone: 4155550123"
    call = exchange(encoder, "hello", rendered=words, tools=[tool])
    with pytest.raises(RedactionFailed) as failure:
        redactor.redact_exchange(call)
    assert failure.value.reason == "leak"


def test_what_templates_may_leave_out_need_not_be_in_the_tokens(redactor: Redactor, encoder: Encoder) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": '{"to": "bo@example.org"}'}}
    redacted = redactor.redact_exchange(
        exchange(encoder, "hello", user="ana@example.com", metadata={"phone": "415-555-0123"}, tools=[call])
    )
    assert redacted.request == {
        "messages": [{"role": "user", "content": "hello"}],
        "user": "<EMAIL_1>",
        "metadata": {"phone": "<PHONE_1>"},
        "tools": [{"id": "c1", "type": "function", "function": {"name": "send", "arguments": '{"to": "<EMAIL_2>"}'}}],
    }


def test_logprobs_in_the_answer_are_dropped_for_they_spell_values(redactor: Redactor, encoder: Encoder) -> None:
    spelled = {"content": [{"token": piece, "logprob": -1.0, "top_logprobs": []} for piece in ("ana", "@", "example", ".com")]}
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": []},
            response={"choices": [{"message": {"content": "ana@example.com"}, "logprobs": spelled}]},  # type: ignore[dict-item]
            prompt_ids=encoder.chat(("user", "hi")),
            output_ids=[encoder.ids("ana@example.com")],
        )
    )
    assert redacted.response == {"choices": [{"message": {"content": "<EMAIL_1>"}, "logprobs": None}]}


def test_surrogates_stay_the_same_when_the_next_turn_resends_the_history(redactor: Redactor, encoder: Encoder) -> None:
    first, answer, second = "mail ana@example.com", "or bo@example.org?", "no, +1 415 555 0123"
    one = redactor.redact_exchange(exchange(encoder, first, answer=answer, user="cy@example.net"))
    turns = [("user", first), ("assistant", answer), ("user", second)]
    two = redactor.redact_exchange(
        Exchange(
            request={"messages": [{"role": role, "content": content} for role, content in turns], "user": "cy@example.net"},
            response={},
            prompt_ids=encoder.chat(*turns),
            output_ids=[encoder.ids("ok")],
        )
    )
    assert isinstance(one.request, dict) and isinstance(two.request, dict)
    assert one.request["messages"] == [{"role": "user", "content": "mail <EMAIL_1>"}]
    assert two.request["messages"] == [
        {"role": "user", "content": "mail <EMAIL_1>"},
        {"role": "assistant", "content": "or <EMAIL_2>?"},
        {"role": "user", "content": "no, <PHONE_1>"},
    ]
    assert one.request["user"] == two.request["user"] == "<EMAIL_3>"


def test_spans_point_at_surrogates_and_hold_no_value(redactor: Redactor, encoder: Encoder) -> None:
    redacted = redactor.redact_exchange(exchange(encoder, "a ana@example.com, b ana@example.com, c 415-555-0123"))
    assert isinstance(redacted.request, dict)
    content = "a <EMAIL_1>, b <EMAIL_1>, c <PHONE_1>"
    assert redacted.request["messages"] == [{"role": "user", "content": content}]
    assert [content[span.start : span.end] for span in redacted.spans] == ["<EMAIL_1>", "<EMAIL_1>", "<PHONE_1>"]
    assert [span.surrogate for span in redacted.spans] == ["<EMAIL_1>", "<EMAIL_1>", "<PHONE_1>"]
    assert "ana" not in repr(redacted.spans) and "555" not in repr(redacted.spans)


def test_ids_without_a_table_or_of_another_vocabulary_are_refused(tokens: TokenBytes, encoder: Encoder) -> None:
    call = exchange(encoder, "hello")
    with pytest.raises(RedactionFailed, match="no_token_table"):
        Redactor(b"k", MASK_ID, None).redact_exchange(call)
    strange = Exchange(call.request, call.response, np.array([10**6], np.int32), [])
    with pytest.raises(RedactionFailed, match="unknown_token"):
        Redactor(b"k", MASK_ID, tokens).redact_exchange(strange)


def test_an_exchange_without_a_record_is_redacted_by_its_text(redactor: Redactor) -> None:
    redacted = redactor.redact_exchange(Exchange({"messages": [{"role": "user", "content": "ana@example.com"}]}, None))
    assert redacted.request == {"messages": [{"role": "user", "content": "<EMAIL_1>"}]}
    assert redacted.prompt_ids is None and redacted.prompt_altered is None and redacted.output_ids == []
