import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atdp import arrays
from atdp.codec import decode_event, encode_event
from atdp.errors import InvalidArray, InvalidEvent, InvalidVersion
from atdp.events import Event, Span
from atdp.samples import TokenSequence, TurnSpan
from atdp.versions import version_index, version_name

event = Event(
    event_id="0" * 32,
    tenant="acme",
    agent="triage",
    kind="model_call",
    started_at=1,
    ended_at=2,
    boundary="gateway",
    o={"messages": [{"role": "user", "content": "<EMAIL_1>"}]},
    spans=[Span("EMAIL", "pattern", 1.0, "/messages/0/content", 0, 9, "<EMAIL_1>")],
)


def test_an_event_survives_a_round_trip() -> None:
    assert decode_event(encode_event(event)) == event


def test_unknown_fields_and_kinds_survive_a_round_trip() -> None:
    body = msgspec.json.decode(encode_event(event)) | {"kind": "teleport", "x-new": {"deep": [1, None]}}
    again = msgspec.json.decode(encode_event(decode_event(msgspec.json.encode(body))))
    assert again == body


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(st.text(min_size=1, max_size=4).map(lambda name: f"x-{name}"), json_values, max_size=3)


@pytest.mark.slow
@settings(max_examples=40)
@given(unknown, st.lists(unknown, max_size=3), st.tuples(unknown, unknown, unknown, unknown, unknown))
def test_whatever_is_unknown_survives_at_every_level(top: dict, spans: list[dict], parts: tuple[dict, ...]) -> None:
    body = {**msgspec.json.decode(encode_event(event)), **top, **dict(zip("ohaym", parts, strict=True)), "r": [*spans]}
    body["spans"] = [{**body["spans"][0], **more} for more in spans]
    again = msgspec.json.decode(encode_event(decode_event(msgspec.json.encode(body))))
    assert again == {name: value for name, value in body.items() if name.startswith("x-") or value not in ({}, [])}


@pytest.mark.parametrize("broken", [b"", b"[]", b"{}", b'{"event_id":3}'])
def test_a_broken_event_is_refused(broken: bytes) -> None:
    with pytest.raises(InvalidEvent):
        decode_event(broken)


def test_an_event_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="ends before"):
        decode_event(encode_event(msgspec.structs.replace(event, started_at=3)))


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_arrays_survive_base64(values: list[int]) -> None:
    assert arrays.decode(arrays.encode(values, arrays.INT32), arrays.INT32).tolist() == values


@pytest.mark.parametrize("text", ["AAA", "AAAA", "ä", "AAAA\n"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(InvalidArray):
        arrays.decode(text, arrays.INT32)


def sequence(length: int) -> TokenSequence:
    row = np.zeros(length, np.int32)
    flags = np.zeros(length, np.uint8).tobytes()
    return TokenSequence(row.tobytes(), flags, row.tobytes(), row.tobytes(), flags, [TurnSpan("e1", 0, length)])


@pytest.mark.parametrize("field", ["loss_mask", "logprobs", "versions", "altered", "token_ids"])
def test_a_sequence_of_unequal_lengths_is_invalid_and_never_padded(field: str) -> None:
    whole = sequence(4)
    whole.validate()
    with pytest.raises(InvalidEvent):
        msgspec.structs.replace(whole, **{field: getattr(whole, field)[:-1]}).validate()


def test_a_turn_outside_its_sequence_is_invalid() -> None:
    with pytest.raises(InvalidEvent, match="outside"):
        msgspec.structs.replace(sequence(4), turns=[TurnSpan("e1", 2, 5)]).validate()


@given(st.integers(0, 10**9))
def test_version_names_and_indices_are_one_to_one(index: int) -> None:
    assert version_index(version_name(index)) == index


@pytest.mark.parametrize("name", ["", "v1", "default", "v00000x", "w000001"])
def test_what_is_no_version_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidVersion):
        version_index(name)
