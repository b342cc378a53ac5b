"""The record is taken out wherever the borders of chunks fall; every other byte passes, and the end is held."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import BY_PATH, CHAT
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


ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
"""Of lines: server-sent events may have any."""


def run(chunks: list[bytes]) -> tuple[bytes, bytes, bytes]:
    splitter = StreamSplitter(CHAT.held_from)
    passed = b"".join(splitter.feed(chunk) for chunk in chunks)
    return passed, *splitter.finish()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_two_chunks_split_at_every_byte(end):
    head, stream, rest = (part.replace(b"\n", end) for part in (HEAD, STREAM, END))
    for cut in range(1, len(stream)):
        assert run([stream[:cut], stream[cut:]]) == (head, rest, RECORD), cut


@given(st.lists(st.integers(0, 2 * len(STREAM)), max_size=40), st.sampled_from(list(ENDS.values())))
def test_any_number_of_chunks(cuts, end):
    head, stream, rest = (part.replace(b"\n", end) for part in (HEAD, STREAM, END))
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert run([stream[a:b] for a, b in pairwise(borders)]) == (head, rest, RECORD)


@pytest.mark.parametrize("dialect", [dialect for dialect in BY_PATH.values() if dialect.generates], ids=lambda one: one.name)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_end_of_an_answer_without_a_record_is_held_in_every_dialect(dialect, end):
    for marker in dialect.held_from[1:]:
        splitter = StreamSplitter(dialect.held_from)
        last = marker + end + b"data: {}" + end + end
        assert splitter.feed(b"data: 1" + end + end) == b"data: 1" + end + end and splitter.at_boundary
        assert splitter.feed(last) == b"" and splitter.holding
        assert splitter.finish() == (last, b"")


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
