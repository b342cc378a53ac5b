"""Putting values back: whatever the pieces, the text is that of the whole; nothing is held that no surrogate begins with."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.pseudonym_types import Form
from gateway.pseudonyms.restore import Pieces, Restorer
from gateway.pseudonyms.slots import CHAT, MESSAGES, RESPONSES
from gateway.pseudonyms.streams import StreamRestorer

FORMS = [
    Form("mia.silva10@example.org", "ann@acme.com", False),
    Form("mia.silva10%40example.org", "ann%40acme.com", False),
    Form("Mia Silva", "Ann Bo", True),
    Form("Mia", "Ann", True),
    Form("4000001", "4111117", True),
    Form('a"b\n9', 'q"r\n1', False),
    Form(json.dumps('a"b\n9')[1:-1], json.dumps('q"r\n1')[1:-1], False),
]
RESTORER = Restorer(FORMS)
TEXTS = st.lists(
    st.sampled_from([*(form.surrogate for form in FORMS), "Mia", " ", "m", "mia.", "4000", "\\n", "x", "é", "Mia Silv", "."]),
    max_size=12,
).map("".join)


@given(TEXTS, st.lists(st.integers(1, 7), max_size=40))
def test_pieces_give_what_the_whole_gives(text: str, sizes: list[int]) -> None:
    pieces, made, at = Pieces(RESTORER), "", 0
    for size in [*sizes, len(text)]:
        made += pieces.feed(text[at : at + size])
        at += size
    assert made + pieces.end() == RESTORER.whole(text)


def test_only_what_may_be_a_beginning_is_held_back() -> None:
    pieces = Pieces(RESTORER)
    assert pieces.feed("to mia.sil") == "to "
    assert pieces.feed("ly people, Mi") == "mia.silly people, "
    assert (pieces.feed("a"), pieces.feed("!"), pieces.end()) == ("", "Ann!", "")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Dear Mia Silva,", "Dear Ann Bo,"),
        ("Miami and Mia.", "Miami and Ann."),
        ('{"to": "\\nMia"}', '{"to": "\\nAnn"}'),
        ("14000001 4000001", "14000001 4111117"),
        ("?q=mia.silva10%40example.org", "?q=ann%40acme.com"),
    ],
)
def test_words_stand_alone_and_spellings_stay(said: str, meant: str) -> None:
    assert RESTORER.whole(said) == meant


def test_json_inside_json_stays_json() -> None:
    said = json.dumps({"note": 'a"b\n9', "to": "mia.silva10@example.org", "n": 4000001})
    assert json.loads(RESTORER.whole(said)) == {"note": 'q"r\n1', "to": "ann@acme.com", "n": 4111117}
    assert RESTORER.value({"n": 4000001, "is": True}) == {"n": 4111117, "is": True}


def events(data: bytes) -> list[dict]:  # type: ignore[type-arg]
    found = [part.partition(b"data: ")[2] for part in data.split(b"\n\n") if part]
    return [json.loads(one) for one in found if one != b"[DONE]"]


def sent(*items: dict) -> bytes:  # type: ignore[type-arg]
    heads = [f"event: {item['type']}\n" if "type" in item else "" for item in items]
    return b"".join(f"{head}data: {json.dumps(item)}\n\n".encode() for head, item in zip(heads, items, strict=True))


def run(stream: bytes, form: object, step: int) -> bytes:
    restorer = StreamRestorer(RESTORER, form)  # type: ignore[arg-type]
    return b"".join(restorer.feed(stream[at : at + step]) for at in range(0, len(stream), step)) + restorer.end()


@pytest.mark.parametrize("step", [1, 50, 10_000])
def test_a_chat_stream_ends_with_all_of_its_text_and_arguments(step: int) -> None:
    def delta(index: int, finish: str | None = None, **fields: object) -> dict:  # type: ignore[type-arg]
        return {"id": "c", "choices": [{"index": index, "delta": fields, "finish_reason": finish}]}

    def call(arguments: str) -> list[dict]:  # type: ignore[type-arg]
        return [{"index": 0, "function": {"arguments": arguments}}]

    stream = sent(
        delta(0, content="hi mia.sil"), delta(1, content="plain"), delta(0, content="va10@example.org and Mi"),
        delta(0, content="a"), delta(0, tool_calls=call('{"n": 4000')), delta(0, tool_calls=call("001")),
        delta(1, "stop"), delta(0, "tool_calls"),
    ) + b"data: [DONE]\n\n"  # fmt: skip
    made = run(stream, CHAT, step)
    assert made.endswith(b"data: [DONE]\n\n")
    texts: dict[tuple[int, str], str] = {}
    for event in events(made):
        (choice,) = event["choices"]
        for name, value in choice["delta"].items():
            text = value if isinstance(value, str) else value[0]["function"]["arguments"]
            texts[choice["index"], name] = texts.get((choice["index"], name), "") + text
    assert texts == {(0, "content"): "hi ann@acme.com and Ann", (1, "content"): "plain", (0, "tool_calls"): '{"n": 4111117'}


def test_events_without_a_surrogate_pass_byte_for_byte() -> None:
    stream = b'data: {"choices": [{"index":0, "delta": {"content":"x 1.50"}}]}\n\n: ping\n\ndata: [DONE]\n\n'
    assert run(stream, CHAT, 3) == stream


def test_what_a_block_held_back_comes_before_its_stop() -> None:
    stream = sent(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "see Mi"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
    )
    made = events(run(stream, MESSAGES, 7))
    assert [event["type"] for event in made][-2:] == ["content_block_delta", "content_block_stop"]
    assert "".join(event["delta"]["text"] for event in made if "delta" in event) == "see Ann"


def test_events_of_a_response_stay_numbered_in_order() -> None:
    item = {"item_id": "m", "output_index": 0, "content_index": 0}
    stream = sent(
        {"type": "response.output_text.delta", **item, "delta": "see Mia", "sequence_number": 1},
        {"type": "response.output_text.done", **item, "text": "see Mia", "sequence_number": 2},
        {"type": "response.completed", "response": {"output": [{"text": "see Mia"}]}, "sequence_number": 3},
    )
    made = events(run(stream, RESPONSES, 11))
    assert [event["sequence_number"] for event in made] == [1, 2, 3, 4]
    assert "".join(event["delta"] for event in made if "delta" in event) == "see Ann" == made[2]["text"]
    assert made[3]["response"]["output"][0]["text"] == "see Ann"


def test_lines_may_end_as_any_server_ends_them_and_an_error_is_restored_whole() -> None:
    event = {"choices": [{"index": 0, "delta": {"content": "to mia.silva10@example.org "}, "finish_reason": None}]}
    for ending in ("\n", "\r\n", "\r"):
        stream = f"data: {json.dumps(event)}{ending}{ending}data: [DONE]{ending}{ending}".encode()
        for step in (1, 5, 1000):
            made = run(stream, CHAT, step)
            assert b"ann@acme.com" in made and b"silva" not in made and made.endswith(f"data: [DONE]{ending}{ending}".encode())
    assert b"Ann" in run(b'data: {"error": {"message": "Mia?"}}\n\n', CHAT, 4)


def test_the_name_of_a_function_is_never_split() -> None:
    calls = [{"index": 0, "function": {"name": "send_mia.", "arguments": ""}}]
    made = run(sent({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]}), CHAT, 9)
    assert events(made)[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "send_mia."
