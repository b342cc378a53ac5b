"""The record is taken out wherever the borders of chunks fall; every other byte passes, and the end is held."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import CHAT
from gateway.record import StreamSplitter, split_json

RECORD = b'{"v":1,"rid":"chatcmpl-1","choices":[{"index":0,"output_ids":"AAAA"}]}'
EVENT = b"event: headrace.record\ndata: " + RECORD + b"\n\n"
HEAD = (
    b": comment\n\n"
    + 'data: {"choices":[{"delta":{"content":"event: headrace.record\\n\\n é 你"}}]}\n\n'.encode()
    + b"event: other\ndata: 1\n\n"
    + b'data: {"choices":[{"delta":{"content":"data: [DONE]"}}]}\n\n'
)
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = HEAD + EVENT + END


def run(chunks: list[bytes]) -> tuple[bytes, bytes, bytes]:
    splitter = StreamSplitter(CHAT.held_from)
    passed = b"".join(splitter.feed(chunk) for chunk in chunks)
    return passed, *splitter.finish()


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
def test_two_chunks_split_at_every_byte(cut):
    assert run([STREAM[:cut], STREAM[cut:]]) == (HEAD, END, RECORD)


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_number_of_chunks(cuts):
    borders = [0, *sorted(cuts), len(STREAM)]
    assert run([STREAM[a:b] for a, b in pairwise(borders)]) == (HEAD, END, RECORD)


def test_one_byte_at_a_time():
    assert run([bytes([byte]) for byte in STREAM]) == (HEAD, END, RECORD)


def test_whole_events_are_never_delayed():
    splitter = StreamSplitter(CHAT.held_from)
    for event in HEAD.split(b"\n\n")[:-1]:
        assert splitter.feed(event + b"\n\n") == event + b"\n\n"
        assert splitter.at_boundary


def test_a_record_that_opens_the_stream_is_found():
    assert run([EVENT, END]) == (b"", END, RECORD)


def test_without_a_record_the_end_is_held():
    assert run([HEAD + b"data: [DO", b"NE]\n\n"]) == (HEAD, b"data: [DONE]\n\n", b"")


def test_a_stream_that_only_looks_like_a_record_at_its_end_is_whole():
    assert run([b"data: 1\n\nevent: head"]) == (b"data: 1\n\n", b"event: head", b"")


def test_a_record_cut_short_is_no_record_and_nothing_of_it_leaks():
    assert run([HEAD + EVENT[:-10]]) == (HEAD, b"", b"")


@given(st.text(), st.binary(max_size=40).map(lambda raw: raw.hex().encode()))
def test_the_field_is_cut_out_of_json(text, payload):
    body = msgspec.json.encode({"id": "x", "choices": [{"message": {"content": text + ',"headrace_record":{}}'}}]})
    record = b'{"rid":"%s"}' % payload
    assert split_json(body[:-1] + b',"headrace_record":' + record + b"}") == (body, record)


def test_json_without_a_record_is_untouched():
    assert split_json(b'{"error":{"message":"no"}}\n') == (b'{"error":{"message":"no"}}\n', b"")
    assert split_json(b"") == (b"", b"")
