"""What rules for texts cannot read never reaches the store: media, sealed reasoning, raw ids, texts spelled by logprobs."""

import base64
from typing import Any

import msgspec
import pytest

from dataproxy.digests import KeyedDigests
from dataproxy.drain.dialects import DIALECTS
from dataproxy.drain.payloads import conceal

DIGESTS, OTHERS = KeyedDigests(bytes(32)), KeyedDigests(b"\1" * 32)
PICTURE = base64.b64encode(b"a picture of ana@example.com, not to be kept").decode()
PARTS: dict[str, list[Any]] = {
    "chat": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
        {"type": "input_audio", "input_audio": {"data": PICTURE, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PICTURE}", "filename": "a.pdf"}},
    ],
    "messages": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PICTURE}},
        {"type": "redacted_thinking", "data": PICTURE},
        {"type": "thinking", "thinking": "hm", "signature": PICTURE},
        {"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]},
    ],
    "responses": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PICTURE}"},
    ],
}  # fmt: skip


def concealed(dialect: str, body: dict[str, Any], digests: KeyedDigests = DIGESTS) -> Any:
    return conceal(DIALECTS[dialect].request(body).body, digests)


@pytest.mark.parametrize(("dialect", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_media_and_sealed_blobs_are_kept_by_digest_alone(dialect: str, part: dict[str, Any]) -> None:
    for role in ("user", "assistant"):
        turn = {"role": role, "content": [{"type": "text", "text": "look"}, part]}
        body = concealed(dialect, {"model": "m", "messages": [turn], "input": [turn]})
        del body["input" if "input" in body and dialect != "responses" else "model"]
        text = msgspec.json.encode(body).decode()
        assert PICTURE not in text and "look" in text and "digest=" in text


def test_an_image_has_one_digest_in_every_dialect_and_another_in_another_tenant() -> None:
    def url(dialect: str, digests: KeyedDigests = DIGESTS) -> str:
        turn = {"role": "user", "content": [PARTS[dialect][0]]}
        found = concealed(dialect, {"messages": [turn], "input": [turn]}, digests)["messages"][0]["content"][0]
        return str(found["image_url"]["url"])

    assert url("chat") == url("messages") == url("responses") != url("chat", OTHERS)
    assert url("chat").startswith("data:image/png;digest=") and url("chat").endswith(f";size={len(PICTURE) * 3 // 4}")


def test_reasoning_that_is_only_encoded_is_sealed_in_items_and_answers() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": PICTURE}
    assert PICTURE not in str(concealed("responses", {"input": [item]}))
    answer = DIALECTS["responses"].answer({"status": "completed", "output": [item]})
    assert PICTURE not in str(conceal(answer, DIGESTS)) and "digest=" in str(conceal(answer, DIGESTS))


@pytest.mark.parametrize("field", ["input_ids", "prompt_token_ids", "output_ids"])
def test_raw_ids_are_counted(field: str) -> None:
    assert concealed("chat", {"messages": [], field: [5, 6, 7]})[field] == {"num_ids": 3}
    answer = conceal({"choices": [{"index": 0, field: [5, 6], "message": {"content": "x"}}], "sglext": {field: [[5]]}}, DIGESTS)
    assert answer["choices"][0][field] == {"num_ids": 2} and answer["sglext"][field] == {"num_ids": 1}


def test_logprobs_spell_the_text_again_and_go_while_the_wish_for_them_stays() -> None:
    spelled = {"content": [{"token": "ana"}]}
    answer = conceal({"choices": [{"logprobs": spelled, "meta_info": {"output_token_logprobs": []}, "x": 1}]}, DIGESTS)
    assert answer == {"choices": [{"x": 1}]}
    assert concealed("chat", {"messages": [], "logprobs": True, "top_logprobs": 2})["top_logprobs"] == 2


def test_texts_urls_and_schemas_stay() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"signature": {"type": "string"}}}}}]
    body = {"messages": [{"role": "user", "content": f"data:image/png;base64,{PICTURE}"}], "tools": tools}
    assert concealed("chat", body) == body
    linked = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]}
    assert concealed("chat", linked) == linked
