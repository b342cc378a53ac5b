"""The comparison of two answers sees every difference but where an engine cut its text."""

import json

from tests.e2e.comparable import comparable

STREAM = "text/event-stream"


def stream(*chunks: tuple[str, str | None]) -> bytes:
    """A legacy completion's stream of (text, finish reason)."""
    events = [{"choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": end}]} for text, end in chunks]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"


def test_where_a_text_was_cut_does_not_show() -> None:
    cut = comparable(STREAM, stream((" Novels", None), (" membr", "length")))
    assert cut == comparable(STREAM, stream((" Novels membr", "length")))
    assert "length" in str(cut)


def test_another_end_or_another_text_shows() -> None:
    whole = comparable(STREAM, stream((" Novels", None), (" membr", "length")))
    for other in (
        stream((" Novels", None), (" membr", "stop")),
        stream((" Novels", None), (" membr", None)),
        stream((" Nov", "length")),
    ):
        assert comparable(STREAM, other) != whole
