"""Where the record stands in an answer, and that nothing else moves: with a scripted application in place of SGLang."""

import json
from typing import Any

import pytest

from tests.workers.inference.test_record import output, recorder
from workers.inference.middleware import EVENT_PREFIX, SCOPE_KEY, Order, RecordMiddleware

CHAT = "/v1/chat/completions"
ORDERED = [(b"x-headrace-record", b"1"), (b"x-headrace-rid", b"r1")]
TEXT = b'data: {"choices":[{"delta":{"content":"\\"finish_reason\\":\\"stop\\""},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def stream(*pieces: bytes, num_choices: int = 1, finished: int = 1, status: int = 200) -> Any:
    """An application that streams `pieces`, after `finished` of its choices came to an end."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        order: Order | None = scope.get(SCOPE_KEY)
        if order is not None and order.wants_record:
            order.record = recorder(num_choices)
            for index in range(finished):
                order.record.on_output(index, output([5]))
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]}
        )
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def whole(body: bytes, status: int = 200, parts: int = 1) -> Any:
    """An application that answers with one JSON body, in `parts`."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        order: Order | None = scope.get(SCOPE_KEY)
        if order is not None and order.wants_record:
            order.record = recorder()
            order.record.on_output(0, output([5]))
        headers = [(b"Content-Length", str(len(body)).encode()), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        step = -(-len(body) // parts)
        for at in range(0, len(body), step):
            await send({"type": "http.response.body", "body": body[at : at + step], "more_body": at + step < len(body)})

    return app


async def call(app: Any, headers: Any = ORDERED, path: str = CHAT) -> tuple[dict[str, Any], list[bytes], list[Order]]:
    """Start message, body pieces and forgotten orders of one call."""
    sent: list[Any] = []
    forgotten: list[Order] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "path": path, "headers": list(headers)}
    await RecordMiddleware(app, forgotten.append)(scope, receive, send)
    assert not sent[-1].get("more_body", False)
    return sent[0], [message.get("body", b"") for message in sent[1:]], forgotten


async def test_the_event_stands_alone_before_the_finish_chunk() -> None:
    _, pieces, forgotten = await call(stream(TEXT, FINISH, DONE))
    assert [pieces[0], *pieces[2:]] == [TEXT, FINISH, DONE, b""]
    assert pieces[1].startswith(EVENT_PREFIX) and pieces[1].endswith(b"}\n\n") and pieces[1].count(b"\n") == 3
    assert [order.rid for order in forgotten] == ["r1"]


async def test_with_two_choices_it_waits_for_the_last_finish_chunk() -> None:
    _, pieces, _ = await call(stream(TEXT, FINISH, FINISH, DONE, num_choices=2, finished=2))
    assert [piece.startswith(EVENT_PREFIX) for piece in pieces] == [False, False, True, False, False, False]


async def test_a_stream_that_breaks_off_has_no_record() -> None:
    for app in (stream(TEXT, DONE), stream(TEXT, FINISH, DONE, num_choices=2, finished=1)):
        _, pieces, _ = await call(app)
        assert not any(piece.startswith(EVENT_PREFIX) for piece in pieces)


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_json_answer_gets_one_last_field_and_its_length(parts: int) -> None:
    body = b'{"id":"r1","text":",\\"headrace_record\\":{}"}'
    start, pieces, _ = await call(whole(body, parts=parts))
    got = b"".join(pieces)
    at = got.rfind(b',"headrace_record":')
    assert got[:at] + b"}" == body and got.endswith(b"}}")
    assert dict(start["headers"])[b"Content-Length"] == str(len(got)).encode()


RESPONSE = {
    kind: f"event: response.{kind}\ndata: {{}}\n\n".encode() for kind in ("created", "output_text.delta", "completed", "failed")
}
MESSAGE = {kind: f"event: {kind}\ndata: {{}}\n\n".encode() for kind in ("message_start", "message_delta", "message_stop", "error")}


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/v1/completions", [TEXT], [FINISH, DONE]),
        ("/v1/responses", [RESPONSE["created"], RESPONSE["output_text.delta"]], [RESPONSE["completed"]]),
        ("/v1/responses", [RESPONSE["created"]], [RESPONSE["failed"]]),
        ("/v1/messages", [MESSAGE["message_start"]], [MESSAGE["message_delta"], MESSAGE["message_stop"]]),
        ("/v1/messages", [MESSAGE["message_start"]], [MESSAGE["error"], MESSAGE["message_stop"]]),
    ],
)
async def test_in_each_dialect_the_record_stands_before_the_event_that_ends_it(
    path: str, before: list[bytes], after: list[bytes]
) -> None:
    _, pieces, _ = await call(stream(*before, *after), path=path)
    at = len(before)
    assert pieces[at].startswith(EVENT_PREFIX)
    assert [*pieces[:at], *pieces[at + 1 :]] == [*before, *after, b""]


async def test_completions_end_one_after_another_and_the_record_waits_for_the_last() -> None:
    """Their chunks with a finish reason come as each choice ends, not together as those of chat."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        order = scope[SCOPE_KEY]
        order.record = recorder(2)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for index in range(2):
            order.record.on_output(index, output([5]))
            await send({"type": "http.response.body", "body": FINISH, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    _, pieces, _ = await call(app, path="/v1/completions")
    assert [piece.startswith(EVENT_PREFIX) for piece in pieces] == [False, True, False, False]


async def test_an_error_passes_as_it_is() -> None:
    start, pieces, _ = await call(whole(b'{"object":"error"}', status=400))
    assert (start["status"], b"".join(pieces)) == (400, b'{"object":"error"}')


async def test_without_our_headers_nothing_is_added_or_held() -> None:
    for headers in ([], [(b"x-other", b"1")], [(b"x-headrace-rid", b"r1")], [(b"x-headrace-record", b"0")]):
        _, pieces, _ = await call(stream(TEXT, FINISH, DONE), headers)
        assert pieces == [TEXT, FINISH, DONE, b""]


async def test_other_paths_carry_no_record_but_the_gateways_rid() -> None:
    seen: list[Order] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope[SCOPE_KEY])
        await stream(TEXT, FINISH)(scope, receive, send)

    salt = (b"x-headrace-cache-salt", b"s")
    _, pieces, _ = await call(app, [*ORDERED, salt], "/v1/embeddings")
    assert pieces == [TEXT, FINISH, b""]
    assert (seen[0].rid, seen[0].cache_salt, seen[0].wants_record) == ("r1", "s", False)


ERROR = b'data: {"error": {"object": "error", "message": "no grammar", "type": "BAD_REQUEST", "param": null, "code": 400}}\n\n'


async def test_a_stream_that_opens_with_a_refusal_is_that_refusal() -> None:
    start, pieces, _ = await call(stream(ERROR, DONE))
    assert start["status"] == 400 and (b"content-type", b"application/json") in start["headers"]
    assert json.loads(b"".join(pieces)) == json.loads(ERROR[6:])["error"]
    for first in (ERROR.replace(b"400", b"500"), TEXT):
        start, pieces, _ = await call(stream(first, ERROR, FINISH, DONE))
        assert start["status"] == 200 and pieces[:2] == [first, ERROR]
    start, pieces, _ = await call(stream(ERROR, DONE), [])
    assert (start["status"], pieces) == (200, [ERROR, DONE, b""])


@pytest.mark.parametrize("error", [TypeError("x"), KeyError("x"), ZeroDivisionError(), AssertionError("x"), ValueError("x")])
async def test_a_stumble_before_the_engine_was_asked_is_a_400_and_one_after_it_is_not(error: Exception) -> None:
    def stumbling(asked: bool = False, *begun: Any) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if asked:
                scope[SCOPE_KEY].record = recorder()
            for message in begun:
                await send(message)
            raise error

        return app

    async def outcome(app: Any, headers: Any = ORDERED) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        middleware = RecordMiddleware(app, lambda order: None, lambda path, error: f"{path} {type(error).__name__}".encode())
        await middleware({"type": "http", "path": CHAT, "headers": headers}, send, send)
        return sent

    start, body = await outcome(stumbling())
    assert (start["status"], body["body"]) == (400, f"{CHAT} {type(error).__name__}".encode())
    begun = {"type": "http.response.start", "status": 200, "headers": []}
    for app, headers in ((stumbling(), []), (stumbling(True), ORDERED), (stumbling(False, begun), ORDERED)):
        with pytest.raises(type(error)):
            await outcome(app, headers)
