"""Events relayed to the data proxy: under the caller's key and session, decompressed, bounded, and 503 while it is down."""

import gzip

import pytest

from gateway.ingest import MAX_BYTES

BATCH = b'{"events":[]}'


@pytest.mark.parametrize(
    ("path", "headers", "session"),
    [
        ("/v1/events", {}, None),
        ("/v1/events", {"x-session-id": "s1"}, "s1"),
        ("/s/s2/v1/events", {}, "s2"),
    ],
)
async def test_a_batch_goes_to_the_data_proxy_under_the_callers_key_and_session(served, path, headers, session):
    async with served.client() as client:
        answer = await client.post(path, content=BATCH, headers={"content-type": "application/json", **headers})
    assert (answer.status_code, answer.content) == served.dataproxy.ingest_answer
    ((to, sent, body),) = served.dataproxy.ingested
    assert (to, body, sent["authorization"], sent["content-type"]) == ("/v1/events", BATCH, "Bearer hr_acme", "application/json")
    assert sent.get("x-headrace-session") == session


@pytest.mark.parametrize("name", ["a%0d%0ax-injected:%201", "%E4%BB%A3%E7%90%86", "n" * 129])
async def test_a_session_that_could_not_stand_in_a_header_goes_by_its_digest_as_for_calls(served, name):
    async with served.client() as client:
        assert (await client.post(f"/s/{name}/v1/events", content=BATCH)).status_code == 200
    ((_, sent, _),) = served.dataproxy.ingested
    assert sent["x-headrace-session"].startswith("digest-") and "x-injected" not in sent


async def test_spans_are_relayed_as_they_come(served):
    sent = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    async with served.client() as client:
        assert (await client.post("/v1/traces", content=gzip.compress(b"\x0a\x00"), headers=sent)).status_code == 200
    ((to, headers, body),) = served.dataproxy.ingested
    assert (to, headers["content-type"], body) == ("/v1/traces", "application/x-protobuf", b"\x0a\x00")


async def test_a_compressed_batch_is_relayed_plain(served):
    async with served.client() as client:
        await client.post("/v1/events", content=gzip.compress(BATCH), headers={"content-encoding": "gzip"})
    assert served.dataproxy.ingested[0][2] == BATCH


@pytest.mark.parametrize("status", [400, 403])
async def test_what_the_data_proxy_says_is_passed_on(served, status):
    served.dataproxy.ingest_answer = (status, b'{"error":{"message":"m"}}')
    async with served.client() as client:
        answer = await client.post("/v1/events", content=BATCH)
    assert (answer.status_code, answer.content) == served.dataproxy.ingest_answer


async def test_what_is_too_large_and_who_may_not_send_is_refused_at_once(served):
    async with served.client() as client, served.client("hr_reviewer") as reviewer, served.client("hr_no") as stranger:
        bomb = gzip.compress(bytes(MAX_BYTES + 1))
        answer = await client.post("/v1/events", content=bomb, headers={"content-encoding": "gzip"})
        assert answer.status_code == 413
        assert (await reviewer.post("/v1/events", content=BATCH)).status_code == 403
        assert (await stranger.post("/v1/events", content=BATCH)).status_code == 401
    assert served.dataproxy.ingested == []


async def test_events_are_503_while_the_data_proxy_is_down(served, run_dir):
    (run_dir / "run" / "dataproxy.sock").unlink()
    served.gateway.pool.close()
    async with served.client() as client:
        answer = await client.post("/v1/events", content=BATCH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dataproxy_unavailable")
    assert int(answer.headers["retry-after"]) > 0
