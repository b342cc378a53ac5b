"""Sequences against a brute-force reading of the same calls."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atdp.samples import TokenSequence
from dataproxy.assemble.borders import token_digests
from dataproxy.assemble.sequences import Segment, build_sequences
from dataproxy.digests import KeyedDigests

DIGESTS = KeyedDigests(bytes(32))


@dataclass(frozen=True)
class Call:
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    trainable: bool

    @property
    def full(self) -> tuple[int, ...]:
        return self.prompt + self.output


@st.composite
def forests(draw: st.DrawFn) -> list[Call]:
    """Calls over two letters, so that prefixes meet by chance as well as by extension."""
    calls: list[Call] = []
    words = st.lists(st.integers(0, 1), min_size=1, max_size=3).map(tuple)
    for _ in range(draw(st.integers(1, 7))):
        base = draw(st.sampled_from(calls)).full if calls and draw(st.booleans()) else ()
        calls.append(Call(base + draw(words), draw(words), draw(st.booleans())))
    return calls


def parent_by_brute_force(calls: list[Call], i: int) -> int | None:
    """The deepest earlier call whose prompt and output this prompt starts with; of equal ones the latest."""
    joined = [j for j in range(i) if calls[i].prompt[: len(calls[j].full)] == calls[j].full]
    return max(joined, key=lambda j: (len(calls[j].full), j), default=None)


def parent_by_digest(calls: list[Call], i: int) -> int | None:
    """The same by keyed digests, as placement does."""
    borders = [(len(call.full), token_digests(DIGESTS, np.array(call.full, np.int32), [len(call.full)])) for call in calls[:i]]
    mine = token_digests(DIGESTS, np.array(calls[i].prompt, np.int32), [length for length, _ in borders])
    joined = [j for j, (length, digest) in enumerate(borders) if mine.get(length) == digest[length]]
    return max(joined, key=lambda j: (len(calls[j].full), j), default=None)


def segments_of(calls: list[Call]) -> list[Segment]:
    made = []
    for i, call in enumerate(calls):
        parent = parent_by_brute_force(calls, i)
        made.append(segment(f"e{i}", call.prompt, call.output, f"e{parent}" if parent is not None else None, call.trainable))
    return made


def segment(
    name: str,
    prompt: tuple[int, ...],
    output: tuple[int, ...],
    parent: str | None = None,
    trainable: bool = True,
    altered: tuple[int, ...] = (),
    prompt_altered: tuple[int, ...] = (),
) -> Segment:
    return Segment(
        event_id=name,
        choice=0,
        parent=(parent, 0) if parent is not None else None,
        trainable=trainable,
        prompt_ids=np.array(prompt, np.int32),
        output_ids=np.array(output, np.int32),
        logprobs=np.array([-1.0 - i for i in range(len(output))], np.float32),
        versions=np.array([int(name[1:])] * len(output), np.int32),
        prompt_altered=np.array(prompt_altered or (0,) * len(prompt), np.uint8),
        output_altered=np.array(altered or (0,) * len(output), np.uint8),
    )


def trained(rows: list[TokenSequence]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """(event, everything before the output, the output) of every trained turn."""
    found = []
    for row in rows:
        ids = tuple(row.ids().tolist())
        found += [(turn.event_id, ids[: turn.start], ids[turn.start : turn.end]) for turn in row.turns]
    return sorted(found)


@pytest.mark.slow
@given(forests())
@settings(max_examples=200)
def test_digests_find_the_parents_that_comparing_ids_finds(calls: list[Call]) -> None:
    for i in range(len(calls)):
        assert parent_by_digest(calls, i) == parent_by_brute_force(calls, i)


@pytest.mark.slow
@given(forests())
@settings(max_examples=200)
def test_every_trainable_call_is_trained_once_in_the_context_it_was_sampled_in(calls: list[Call]) -> None:
    rows = build_sequences(segments_of(calls), {})
    assert trained(rows) == sorted((f"e{i}", c.prompt, c.output) for i, c in enumerate(calls) if c.trainable)
    for row in rows:
        row.validate()
        spans = [range(turn.start, turn.end) for turn in row.turns]
        assert row.mask().sum() == sum(map(len, spans)) and all(row.mask()[list(span)].all() for span in spans)
        assert (row.behaviour_logprobs()[~row.mask()] == 0).all() and (row.version_indices()[row.mask()] >= 0).all()


def test_a_conversation_that_joins_is_one_row_with_a_turn_each() -> None:
    first = segment("e1", (1, 2), (3, 4))
    second = segment("e2", (1, 2, 3, 4, 5), (6,), parent="e1")
    (row,) = build_sequences([first, second], {("e2", 0): 0.5})
    assert row.ids().tolist() == [1, 2, 3, 4, 5, 6] and row.mask().tolist() == [False, False, True, True, False, True]
    assert row.behaviour_logprobs().tolist() == [0, 0, -1, -2, 0, -1] and row.version_indices().tolist() == [-1, -1, 1, 1, -1, 2]
    assert [(turn.event_id, turn.reward) for turn in row.turns] == [("e1", None), ("e2", 0.5)]


def test_an_altered_id_is_in_no_loss_wherever_it_was_found() -> None:
    first = segment("e1", (1, 2), (16, 4, 5), altered=(1, 0, 0))
    second = segment("e2", (1, 2, 3, 16, 5, 6), (7,), parent="e1", prompt_altered=(0, 0, 0, 1, 0, 0))
    (row,) = build_sequences([first, second], {})
    assert row.ids().tolist() == [1, 2, 16, 16, 5, 6, 7]
    assert row.mask().tolist() == [False, False, False, False, True, False, True]
    assert row.behaviour_logprobs().tolist() == [0, 0, 0, 0, -3, 0, -1]


def test_an_answer_shared_by_two_branches_is_in_the_loss_of_one() -> None:
    root = segment("e1", (1,), (2,))
    left, right = segment("e2", (1, 2, 3), (4,), parent="e1"), segment("e3", (1, 2, 5), (6,), parent="e1")
    rows = build_sequences([root, left, right], {})
    assert [[turn.event_id for turn in row.turns] for row in rows] == [["e1", "e2"], ["e3"]]
