"""Reads a request body on ASGI, for the routes that are not hot, by the same rules as ``edge.body``."""

import asyncio

from gateway.answers import Message, Receive
from gateway.edge.body import MAX_PAUSES, Body
from gateway.errors import ClientLeft, Refused


async def read_body(receive: Receive, length: bytes, encoding: bytes, max_bytes: int, timeout_s: float) -> bytes:
    """The body, decompressed. ``length`` and ``encoding`` are the values of Content-Length and Content-Encoding, or empty.

    Raises:
        Refused: 400 (broken compression), 408, 413 or 415. ClientLeft: the connection broke.
    """
    body, more = Body(length, encoding, max_bytes), True
    clock = asyncio.get_running_loop().time
    due = clock() + MAX_PAUSES * timeout_s
    while more:
        message = await _receive(receive, min(timeout_s, due - clock()))
        body.add(message["body"])
        more = message.get("more_body", False)
    return body.whole()


async def _receive(receive: Receive, timeout_s: float) -> Message:
    try:
        async with asyncio.timeout(timeout_s):
            message = await receive()
    except TimeoutError as error:
        raise Refused(408, "body_timeout", "the request body did not arrive in time; send it again") from error
    if message["type"] == "http.disconnect":
        raise ClientLeft
    return message
