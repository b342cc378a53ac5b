"""Texts and JSON: what is replaced, what stays, and that failure never lets anything pass."""

import base64
import json
import subprocess
import sys

import pytest

from dataproxy.redact import Exchange, RedactionFailed, Redactor, TokenBytes
from dataproxy.redact.exchange import Json
from tests.dataproxy.redact.encoder import MASK_ID, Encoder


def redact(redactor: Redactor, value: Json) -> Json:
    return redactor.redact_exchange(Exchange(value, None)).request


def test_text_is_spliced_around_surrogates(redactor: Redactor) -> None:
    redacted = redactor.redact_text("Write to ana@example.com or bo@example.org, not ana@example.com!")
    assert redacted.text == "Write to <EMAIL_1> or <EMAIL_2>, not <EMAIL_1>!"
    assert [redacted.text[span.start : span.end] for span in redacted.spans] == ["<EMAIL_1>", "<EMAIL_2>", "<EMAIL_1>"]
    assert {span.path for span in redacted.spans} == {""}


def test_values_without_anything_personal_come_back_as_they_were(redactor: Redactor) -> None:
    value: Json = {"a": [1, 2.5, True, None, "text", {"b": ""}], "created": 1700000000, "id": "chatcmpl-0123456789abcdef"}
    assert redact(redactor, value) == value


def test_numbers_keys_and_every_depth_are_redacted(redactor: Redactor) -> None:
    value: Json = {"a": [{"card": 4111111111111111, "same": 4111111111111111.0, "phone": 4155550123}], "ana@example.com": {"n": 1}}
    assert redact(redactor, value) == {"a": [{"card": "<CARD_1>", "same": "<CARD_1>", "phone": "<PHONE_1>"}], "<EMAIL_1>": {"n": 1}}


def test_a_redacted_key_shows_neither_in_span_paths_nor_swallows_another(redactor: Redactor) -> None:
    redacted = redactor.redact_exchange(Exchange({"m": {"Ana@example.com": "bo@example.org", "ana@example.com": 2}}, None))
    assert isinstance(redacted.request, dict) and isinstance(redacted.request["m"], dict)
    assert sorted(map(str, redacted.request["m"].values())) == ["2", "<EMAIL_2>"]
    assert all("ana" not in span.path.lower() for span in redacted.spans)


def test_json_in_a_string_stays_json_and_keeps_its_form(redactor: Redactor) -> None:
    arguments = '{ "to":"ana@example.com" , "card": 4111111111111111, "deep": "{\\"to\\": \\"bo\\\\u0040example.org\\"}" }'
    redacted = redact(redactor, {"arguments": arguments})
    expected = '{ "to":"<EMAIL_1>" , "card": "<CARD_1>", "deep": "{\\"to\\": \\"<EMAIL_2>\\"}" }'
    assert redacted == {"arguments": expected}
    assert json.loads(json.loads(expected)["deep"]) == {"to": "<EMAIL_2>"}


def test_arguments_that_are_no_json_are_redacted_as_text(redactor: Redactor) -> None:
    assert redact(redactor, '{"to": "ana@example.com", oops') == '{"to": "<EMAIL_1>", oops'


def test_a_data_url_with_text_in_it_is_emptied_and_an_image_stays(redactor: Redactor) -> None:
    secret = "data:text/plain;base64," + base64.b64encode(b"mail ana@example.com").decode()
    image = "data:image/png;base64," + base64.b64encode(bytes(range(128, 256))).decode()
    assert redact(redactor, [secret, image]) == ["data:text/plain;base64,<DATA_1>", image]


def test_strings_beside_the_bodies_are_redacted(redactor: Redactor) -> None:
    redacted = redactor.redact_exchange(Exchange(None, None, strings={"path": "/v1?user=ana%40example.com", "agent": "x"}))
    assert redacted.strings == {"path": "/v1?user=<EMAIL_1>", "agent": "x"}
    assert [span.path for span in redacted.spans] == ["/strings/path"]


def test_past_the_time_limit_it_fails_closed(tokens: TokenBytes) -> None:
    with pytest.raises(RedactionFailed) as failure:
        Redactor(b"k", MASK_ID, tokens, limit_s=-1.0).redact_text("ana@example.com")
    assert failure.value.reason == "timeout"


def test_an_error_fails_closed_and_does_not_quote_the_text(redactor: Redactor) -> None:
    deep: Json = "ana@example.com"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RedactionFailed) as failure:
        redact(redactor, deep)
    assert failure.value.reason == "error" and failure.value.__cause__ is None and failure.value.__suppress_context__
    assert "ana" not in str(failure.value)


def test_many_values_are_all_redacted(redactor: Redactor) -> None:
    text = "\n".join(f"{n};user{n}@example.com" for n in range(900))
    redacted = redactor.redact_text(text)
    assert "@" not in redacted.text and len(redacted.spans) == 900


@pytest.mark.parametrize("separator", ["\n", " "])
def test_a_list_of_more_people_than_anybody_reads_goes_as_one_value(redactor: Redactor, separator: str) -> None:
    redacted = redactor.redact_text("list:\n" + separator.join(f"{n};user{n}@example.com" for n in range(3000)))
    assert "@" not in redacted.text and redacted.text.endswith("<BULK_1>") and redacted.spans[-1].kind == "BULK"


def test_a_list_of_people_is_masked_in_the_tokens_as_well(redactor: Redactor, encoder: Encoder) -> None:
    content = "\n".join(f"{n};user{n}@example.com" for n in range(1200))
    redacted = redactor.redact_exchange(
        Exchange({"messages": [{"role": "user", "content": content}]}, {}, encoder.chat(("user", content)), [encoder.ids("ok")])
    )
    assert redacted.prompt_ids is not None and "@" not in f"{redacted.request}{encoder.text(redacted.prompt_ids)}"


@pytest.mark.slow
def test_importing_redaction_loads_no_model_framework_and_opens_no_connection() -> None:
    code = """
import socket, sys
def refuse(*_): raise AssertionError("network")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from dataproxy.redact import Redactor
assert Redactor(b"k", 16, None).redact_text("ana@example.com").text == "<EMAIL_1>"
print([name for name in ("torch", "transformers", "sglang") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
