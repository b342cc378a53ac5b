"""Looking at a text piece by piece finds what looking at all of it finds, and so does looking at it a second time."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.redact_cases import cases
from bench.redact_sessions import session, tokens
from bench.redact_values import KINDS
from dataproxy.redact import Exchange, RedactedExchange, Redactor
from dataproxy.redact.chunks import chunks
from dataproxy.redact.detector import Detector

WHOLE, CUT = Detector(b"k", chunk_size=1 << 30), Detector(b"k", chunk_size=8)
VALUES = [case.text for kind in KINDS for case in cases(kind, 20, seed=5)]
PIECES = st.one_of(
    st.sampled_from(VALUES),
    st.text(alphabet=st.sampled_from("ab1２ .-+@:=/\\n%&;#x40{}\"'中é\u200b\n"), max_size=12),
    st.sampled_from(
        [
            "\n",
            "\\n",
            ">\n",
            "<|im_end|>\n",
            "phone: ",
            "version ",
            "order no ",
            "password=",
            "card ",
            "-----BEGIN PRIVATE KEY-----\n",
            " ",
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


@settings(max_examples=80)
@given(TEXTS, st.sampled_from(["", "phone", "password"]))
def test_a_text_looked_at_in_pieces_gives_what_the_whole_gives(text: str, context: str) -> None:
    assert CUT.detect(text, context) == WHOLE.detect(text, context)


@settings(max_examples=80)
@given(TEXTS, TEXTS)
def test_a_text_that_goes_on_gives_what_it_gives_to_one_who_never_saw_its_beginning(begun: str, more: str) -> None:
    warm = Detector(b"k", chunk_size=8)
    warm.detect(begun)
    assert warm.detect(begun + more) == WHOLE.detect(begun + more)


@given(st.text(alphabet="a>\n", max_size=60), st.integers(1, 20))
def test_pieces_are_the_text_but_for_a_line_feed_between_two(text: str, size: int) -> None:
    pieces = [text[start:end] for start, end in chunks(text, size)]
    assert "\n".join(pieces) in (text, text.removesuffix("\n"))
    assert all(len(piece) >= size or piece.endswith(">") for piece in pieces[:-1])


def test_the_last_turn_of_a_prompt_is_the_same_piece_when_the_next_turn_follows() -> None:
    turn = "<|im_start|>user\n" + "word " * 20 + "<|im_end|>"
    pieces = [[text[start:end] for start, end in chunks(text)] for text in (turn, f"{turn}\n{turn}\n")]
    assert pieces == [[turn], [turn, turn]]


def test_a_key_that_goes_over_many_pieces_is_one_value() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEF\n" * 40 + "-----END PRIVATE KEY-----"
    (found,) = Detector(b"k").detect(f"line\n{key}\nline")
    assert (found.kind, found.start, found.end) == ("PRIVATE_KEY", 5, 5 + len(key))


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 3))
def test_a_session_seen_before_is_redacted_as_one_never_seen(seed: int, num_turns: int, again: int) -> None:
    turns = list(session(random.Random(seed), num_turns))
    warm = Redactor(b"k" * 32, 16, tokens())
    for exchange in [*turns, *turns[:again]]:
        same(warm.redact_exchange(exchange), Redactor(b"k" * 32, 16, tokens()).redact_exchange(exchange))


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_messages_seen_with_other_values_beside_them_are_redacted_anew(pairs: list[tuple[str, str]]) -> None:
    # What one message holds may have to go from another: the second must not be taken as it was when it stood alone.
    warm = Redactor(b"k" * 32, 16, None)
    for first, second in pairs:
        for contents in ([first], [second], [first, second]):
            request = {"messages": [{"role": "user", "content": content} for content in contents], "user": second}
            same(
                warm.redact_exchange(Exchange(request, None)),
                Redactor(b"k" * 32, 16, None).redact_exchange(Exchange(request, None)),
            )


def same(one: RedactedExchange, other: RedactedExchange) -> None:
    assert (one.request, one.response, one.strings, one.spans) == (other.request, other.response, other.strings, other.spans)
    for warm, fresh in ((one.prompt_ids, other.prompt_ids), (one.prompt_altered, other.prompt_altered)):
        assert (warm is None and fresh is None) or (warm is not None and fresh is not None and np.array_equal(warm, fresh))
    assert all(map(np.array_equal, one.output_ids, other.output_ids))
    assert all(map(np.array_equal, one.output_altered, other.output_altered))
