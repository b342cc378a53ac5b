"""Events put together before they are parsed make the answer that they make one by one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.drain.dialects import DIALECTS
from dataproxy.drain.runs import parsed_events
from dataproxy.drain.sse import event_data

TEXTS = st.text(st.sampled_from('a "\\\n\t{}[],:/é中😀\x00u'), max_size=6)


def chat_chunk(text: str, field: str = "content", **more: Any) -> dict[str, Any]:
    delta = {"reasoning_content": None, "role": "assistant", field: text}
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **more}], "usage": None}


def call_chunk(text: str, index: int) -> dict[str, Any]:
    call = {"id": None, "index": index, "type": "function", "function": {"name": "f", "arguments": text}}
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": None, "tool_calls": [call]}, "finish_reason": None}]}


CHAT = st.one_of(
    TEXTS.map(chat_chunk),
    TEXTS.map(lambda text: chat_chunk(text, "reasoning_content")),
    TEXTS.map(lambda text: chat_chunk(text, "unknown")),
    st.builds(call_chunk, TEXTS, st.integers(0, 1)),
    st.just({"choices": [], "usage": {"total_tokens": 3}}),
    st.just({"choices": [{"index": 1, "delta": {"content": "other"}}]}),
    st.just(chat_chunk("end", finish_reason="stop")),
)
COMPLETIONS = TEXTS.map(lambda text: {"choices": [{"index": 0, "text": text, "finish_reason": None}]})
DELTAS = st.one_of(
    TEXTS.map(lambda text: {"type": "text_delta", "text": text}),
    TEXTS.map(lambda text: {"type": "thinking_delta", "thinking": text}),
    TEXTS.map(lambda text: {"type": "input_json_delta", "partial_json": text}),
    TEXTS.map(lambda text: {"type": "signature_delta", "signature": text}),
    TEXTS.map(lambda text: {"type": "unknown_delta", "text": text}),
)
MESSAGES = st.builds(
    lambda delta, index: {"type": "content_block_delta", "index": index, "delta": delta}, DELTAS, st.integers(0, 1)
)


def body_of(dialect: str, events: list[bytes]) -> bytes:
    """The stream as an engine sends it."""
    name = b"event: content_block_delta\n" if dialect == "messages" else b""
    return b"".join(b"%bdata: %b\n\n" % (name, event) for event in events) + b"data: [DONE]\n\n"


def answer_of(dialect: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    return DIALECTS[dialect].answer(DIALECTS[dialect].joined(events))


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "events"), [("chat", CHAT), ("completions", COMPLETIONS), ("messages", MESSAGES)])
def test_the_answer_is_the_one_that_single_events_make(dialect: str, events: st.SearchStrategy[dict[str, Any]]) -> None:
    @given(st.lists(events, max_size=12))
    def check(stream: list[dict[str, Any]]) -> None:
        together = list(parsed_events(DIALECTS[dialect], body_of(dialect, [msgspec.json.encode(event) for event in stream])))
        assert answer_of(dialect, together) == answer_of(dialect, stream)  # type: ignore[arg-type]

    check()


def test_a_run_is_one_event() -> None:
    stream = [msgspec.json.encode(chat_chunk(text)) for text in ("a ", '\\"', "\n", "")]
    (event,) = parsed_events(DIALECTS["chat"], body_of("chat", stream))
    assert isinstance(event, dict)
    assert event["choices"][0]["delta"]["content"] == 'a \\"\n'


def test_one_broken_event_of_a_run_spoils_no_other() -> None:
    good = msgspec.json.encode(chat_chunk("good"))
    found = list(parsed_events(DIALECTS["chat"], body_of("chat", [good, good.replace(b"good", b"b\xffd"), good])))
    assert [isinstance(event, bytes) for event in found] == [False, True, False]


def test_half_of_an_escaped_character_in_each_of_two_events_makes_one() -> None:
    base = msgspec.json.encode(chat_chunk("#"))
    halves = [base.replace(b"#", half) for half in (rb"\ud83d", rb"\ude00")]
    (event,) = parsed_events(DIALECTS["chat"], body_of("chat", halves))
    assert isinstance(event, dict)
    assert event["choices"][0]["delta"]["content"] == "😀"


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_stream_that_breaks_off_anywhere_keeps_what_was_whole(cut: int) -> None:
    body = body_of("chat", [msgspec.json.encode(chat_chunk(text)) for text in ("one", "two", "three")])[:-16]
    found = list(parsed_events(DIALECTS["chat"], body[:-cut]))
    single = [decoded(data) for data in event_data(body[:-cut])]
    assert answer_of("chat", [e for e in found if isinstance(e, dict)]) == answer_of(
        "chat", [e for e in single if isinstance(e, dict)]
    )
    assert [e for e in found if isinstance(e, bytes)] == [e for e in single if isinstance(e, bytes)]


def decoded(data: bytes) -> dict[str, Any] | bytes:
    try:
        return msgspec.json.decode(data)  # type: ignore[no-any-return]
    except msgspec.DecodeError:
        return data


LINES = st.lists(st.sampled_from([b"data: x", b"data:y", b"data", b"event: z", b": comment", b"", b"id", b"data: "]), max_size=10)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_data_is_read_as_the_standard_says(lines: list[bytes], end: bytes) -> None:
    expected, data = [], []
    for line in [*lines, b""]:
        if line == b"" and data:
            expected.append(b"\n".join(data))
            data = []
        elif line.startswith(b"data"):
            data.append(line.partition(b":")[2].removeprefix(b" "))
    assert list(event_data(end.join(lines))) == expected
