"""Token ids: what is overwritten, and that nothing else is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.redact import Exchange, Redactor, TokenBytes
from tests.dataproxy.redact.encoder import MASK_ID, Encoder

WORDS = st.text(alphabet=st.sampled_from("abcxyz éß中文日本😀\n\t,;!?'\"<>{}"), max_size=30)
VALUES = st.sampled_from(
    ["ana@example.com", "josé.garcía@example.org", "4111 1111 1111 1111", "4111111111111111", "+1 415 555 0123", "13800138000",
     "DE89370400440532013000", "sk-abcDEF1234567890abcdefgh"]
)  # fmt: skip
GLUE = st.sampled_from([(" ", " "), ("「", "」"), (" ", "\n"), ("是", "。")])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with up to three values in it, each set apart by a space or by CJK."""
    values = draw(st.lists(VALUES, max_size=3))
    pieces = [draw(WORDS)]
    for value in values:
        before, after = draw(GLUE)
        pieces += [before, value, after, draw(WORDS)]
    return "".join(pieces), values


@pytest.mark.slow
@given(prompt=texts(), answer=texts())
def test_exactly_the_tokens_of_values_are_overwritten(
    prompt: tuple[str, list[str]], answer: tuple[str, list[str]], redactor: Redactor, tokens: TokenBytes, encoder: Encoder
) -> None:
    prompt_ids, output_ids = encoder.chat(("user", prompt[0])), encoder.ids(f"{answer[0]}<|im_end|>")
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": [{"role": "user", "content": prompt[0]}]},
            response={"choices": [{"message": {"content": answer[0]}}]},
            prompt_ids=prompt_ids,
            output_ids=[output_ids],
        )
    )
    known = {value.encode() for value in prompt[1] + answer[1]}
    assert redacted.prompt_ids is not None and redacted.prompt_altered is not None
    for before, after, altered in (
        (prompt_ids, redacted.prompt_ids, redacted.prompt_altered),
        (output_ids, redacted.output_ids[0], redacted.output_altered[0]),
    ):
        expected = tokens_of(tokens, before, known)
        assert altered.dtype == np.uint8 and after.dtype == np.int32
        assert altered.tolist() == expected
        assert after.tolist() == [MASK_ID if hit else index for index, hit in zip(before.tolist(), expected, strict=True)]


def tokens_of(tokens: TokenBytes, ids: np.ndarray, values: set[bytes]) -> list[int]:
    """1 for each token that holds a byte of a value, worked out byte by byte."""
    data, offsets = tokens.decode(ids)
    hidden = bytearray(len(data))
    for value in values:
        at = data.find(value)
        while at >= 0:
            hidden[at : at + len(value)] = b"\1" * len(value)
            at = data.find(value, at + 1)
    return [int(any(hidden[start:end])) for start, end in zip(offsets.tolist(), offsets.tolist()[1:], strict=False)]


def test_a_value_begun_in_the_prompt_and_ended_in_the_output_is_masked_on_both_sides(redactor: Redactor, encoder: Encoder) -> None:
    head, tail = "Write to ana.smi", "th@example.com now"
    prompt_ids, output_ids = encoder.ids(head), encoder.ids(tail)
    redacted = redactor.redact_exchange(
        Exchange({"prompt": head}, {"choices": [{"text": tail}]}, prompt_ids=prompt_ids, output_ids=[output_ids])
    )
    assert redacted.request == {"prompt": "Write to <EMAIL_1>"}
    assert redacted.response == {"choices": [{"text": "<EMAIL_1> now"}]}
    assert redacted.prompt_ids is not None
    assert "ana" not in encoder.text(redacted.prompt_ids) and "example" not in encoder.text(redacted.output_ids[0])
    assert encoder.text(redacted.output_ids[0]).endswith(" now")


def test_an_output_that_ends_inside_a_character_is_masked_at_the_right_bytes(redactor: Redactor, encoder: Encoder) -> None:
    whole = encoder.ids("中文 ana@example.com 😀")
    output_ids = whole[:-1]
    assert encoder.text(output_ids).endswith("\ufffd")
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": []},
            response={"choices": [{"message": {"content": "中文 ana@example.com \ufffd"}}]},
            prompt_ids=encoder.ids("hi"),
            output_ids=[output_ids],
        )
    )
    kept = redacted.output_ids[0][redacted.output_altered[0] == 0]
    assert encoder.text(kept).startswith("中文") and "ana" not in encoder.text(kept)
    assert kept[-1] == output_ids[-1]


def test_half_a_character_before_a_value_does_not_shift_the_mask(redactor: Redactor, tokens: TokenBytes, encoder: Encoder) -> None:
    whole = encoder.ids("龘龘 ana@example.com and on")
    output_ids = whole[1:]
    assert encoder.text(output_ids).startswith("\ufffd")
    redacted = redactor.redact_exchange(Exchange(None, None, prompt_ids=encoder.chat(("user", "hi")), output_ids=[output_ids]))
    assert redacted.output_altered[0].tolist() == tokens_of(tokens, output_ids, {b"ana@example.com"})


def test_each_choice_has_its_own_output_and_they_share_the_prompt(redactor: Redactor, encoder: Encoder) -> None:
    answers = ["nothing here", "call 415-555-0123"]
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": [{"role": "user", "content": "mail ana@example.com"}]},
            response={"choices": [{"message": {"content": answer}} for answer in answers]},
            prompt_ids=encoder.chat(("user", "mail ana@example.com")),
            output_ids=[encoder.ids(answer) for answer in answers],
        )
    )
    assert redacted.prompt_altered is not None and redacted.prompt_altered.sum() > 0
    assert [int(flags.any()) for flags in redacted.output_altered] == [0, 1]


def test_what_one_choice_shows_in_the_prompt_is_masked_whatever_the_next_choice_says(redactor: Redactor, encoder: Encoder) -> None:
    head, outputs = "Write to ana.smi", ["th@example.com", " nothing"]
    redacted = redactor.redact_exchange(
        Exchange(
            request={"prompt": head},
            response={"choices": [{"text": text} for text in outputs]},
            prompt_ids=encoder.ids(head),
            output_ids=[encoder.ids(text) for text in outputs],
        )
    )
    assert redacted.prompt_ids is not None and "ana" not in encoder.text(redacted.prompt_ids)


def test_an_answer_cut_off_inside_a_value_does_not_keep_its_beginning(redactor: Redactor, encoder: Encoder) -> None:
    question, answer = "My card is 4111 1111 1111 1111, repeat it", "Your card is 4111 1111 11"
    redacted = redactor.redact_exchange(
        Exchange(
            request={"messages": [{"role": "user", "content": question}]},
            response={"choices": [{"message": {"content": answer}}]},
            prompt_ids=encoder.chat(("user", question)),
            output_ids=[encoder.ids(answer)],
        )
    )
    assert redacted.response == {"choices": [{"message": {"content": "Your card is <CARD_1>"}}]}
    assert "4" not in encoder.text(redacted.output_ids[0])
