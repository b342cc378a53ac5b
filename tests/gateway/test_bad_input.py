"""Bad input gets 4xx in OpenAI's form, at once, says what to do, and harms nobody after it."""

import asyncio
import gzip
import json
import zlib

import httpx
import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import run_gateway
from tests.gateway.sse import BODY, CHAT

PLAIN = {**BODY, "stream": False}
JSON = {"content-type": "application/json"}


def check_error(answer: httpx.Response, status: int, code: str) -> None:
    """OpenAI's form, our header, and the ids of the call."""
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], answer.headers["x-headrace-error"]) == (status, code, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) > 20
    assert len(answer.headers["x-headrace-event"]) == 32


@pytest.mark.parametrize("key", ["hr_wrong", "hr_revoked", "hr_expired", "hr_acme2"])
async def test_a_wrong_revoked_or_expired_key_is_401(served, key):
    async with served.client(key) as client:
        check_error(await client.post(CHAT, json=PLAIN), 401, "invalid_api_key")
    assert served.engine.calls == []


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic aHJfYWNtZQ=="}, {"authorization": "hr_acme"}])
async def test_a_missing_or_malformed_authorization_is_401(served, headers):
    async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60) as client:
        answer = await client.post(CHAT, json=PLAIN)
    check_error(answer, 401, "missing_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_roles_that_do_not_call_models_are_403_and_an_admin_may(served):
    async with served.client("hr_reviewer") as client:
        check_error(await client.post(CHAT, json=PLAIN), 403, "role_not_allowed")
    async with served.client("hr_admin") as client:
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200


@pytest.mark.parametrize(
    ("key", "model"), [("hr_acme", "other"), ("hr_elsewhere", "tiny"), ("hr_acme", "tiny:adapter"), ("hr_acme", "")]
)
async def test_an_unknown_model_or_one_that_the_key_may_not_use_is_404(served, key, model):
    async with served.client(key) as client:
        answer = await client.post(CHAT, json={**PLAIN, "model": model})
    check_error(answer, 404, "model_not_found")
    assert answer.json()["error"]["param"] == "model"


MALFORMED = {
    "empty": b"",
    "text": b"hello",
    "cut": b'{"model":"tiny","messages":[',
    "list": b"[]",
    "number": b"1",
    "trailing": b'{"model":"tiny"} x',
    "not utf-8": b'{"model":"tiny","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "nan": b'{"model":"tiny","temperature":NaN}',
    "control character": b'{"model":"tiny","user":"\x01"}',
    "deep": b'{"model":"tiny","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no model": b'{"messages":[]}',
    "model is a number": b'{"model":7,"messages":[]}',
    "model is null": b'{"model":null,"messages":[]}',
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_body_is_400_and_never_reaches_the_engine(served, raw):
    async with served.client() as client:
        answer = await client.post(CHAT, content=raw, headers=JSON)
    assert answer.json()["error"]["code"] in {"invalid_json", "invalid_request", "missing_model"}
    check_error(answer, 400, answer.json()["error"]["code"])
    assert (served.engine.calls, served.journal.begun) == ([], {})


async def test_good_calls_are_served_after_twenty_bad_ones(served):
    async with served.client() as client:
        for _ in range(20):
            assert (await client.post(CHAT, content=b"{", headers=JSON)).status_code == 400
            assert (await client.post(CHAT, json={"model": "tiny", "messages": 1})).status_code == 400
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200


@pytest.fixture
async def small(run_dir):
    """A gateway that takes bodies of 1,000 bytes."""
    engine = FakeEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url], max_body_bytes=1000) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("size", [1001, 20_000, 3_000_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_an_oversized_body_is_413_with_or_without_a_length(small, size, chunked):
    async def pieces():
        for start in range(0, size, 1000):
            yield b" " * min(1000, size - start)

    async with small.client() as client:
        answer = await client.post(CHAT, content=pieces() if chunked else b" " * size, headers=JSON)
    check_error(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"


async def test_an_oversized_body_that_waits_for_continue_is_refused_before_it_is_sent(small):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(small.url.rsplit(":", 1)[1]))
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_acme\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n"
    )
    writer.write(head.encode())
    async with asyncio.timeout(10):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_body_that_waits_for_continue_is_served(served):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
    body = json.dumps(PLAIN).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_acme\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n".encode())
    async with asyncio.timeout(10):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert b'"content":"hello"' in await reader.read()
    writer.close()


@pytest.mark.parametrize(("name", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)])
async def test_compressed_bodies_work(served, name, packed):
    raw = json.dumps(PLAIN).encode()
    async with served.client() as client:
        answer = await client.post(CHAT, content=packed(raw), headers={**JSON, "content-encoding": name})
    assert answer.status_code == 200
    assert served.engine.calls[0].body == raw
    assert "content-encoding" not in served.engine.calls[0].headers


async def test_chunked_bodies_work(served):
    async def pieces():
        for byte in json.dumps(PLAIN).encode():
            yield bytes([byte])

    async with served.client() as client:
        assert (await client.post(CHAT, content=pieces(), headers=JSON)).status_code == 200


async def test_damaged_cut_unknown_and_exploding_compression_are_4xx(small):
    packed = gzip.compress(json.dumps(PLAIN).encode())
    cases = [
        (b"not gzip", "gzip", 400, "invalid_compression"),
        (packed[:-12], "gzip", 400, "invalid_compression"),
        (packed, "br", 415, "unsupported_encoding"),
        (gzip.compress(b" " * 10_000_000)[:1000], "gzip", 413, "body_too_large"),
    ]
    async with small.client() as client:
        for body, encoding, status, code in cases:
            answer = await client.post(CHAT, content=body, headers={**JSON, "content-encoding": encoding})
            check_error(answer, status, code)


async def test_a_body_that_never_comes_is_408(run_dir):
    engine = FakeEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url], body_timeout_s=0.05, control_timeout_s=0.2) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
        writer.write(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_acme\r\ncontent-length: 9\r\n\r\n{{".encode())
        async with asyncio.timeout(10):
            assert (await reader.read()).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", CHAT, 405), ("GET", "/v1/nothing", 404), ("POST", "/s/x/v1/nothing", 404)]
)
async def test_unknown_paths_and_methods_are_in_openais_form(served, method, path, status):
    async with served.client() as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == answer.headers["x-headrace-error"]


async def test_a_thousand_messages_and_duplicate_keys_work(served):
    messages = [{"role": "user", "content": f"m{i}"} for i in range(1000)]
    async with served.client() as client:
        assert (await client.post(CHAT, json={**PLAIN, "messages": messages})).status_code == 200
        raw = b'{"model":"nope","model":"tiny","rid":"a","rid":"b","messages":[{"role":"user","content":"x"}]}'
        assert (await client.post(CHAT, content=raw, headers=JSON)).status_code == 200
    assert b"rid" not in served.engine.calls[1].body
