"""The two halves of an exchange as the gateway seals them. Made by the gateway, read by the drain, msgpack inside the seal.

The bodies are the bytes on the wire: nothing is parsed on the way in. Times are UTC µs.
"""

from typing import Literal

import msgspec

Delivery = Literal["complete", "disconnected", "aborted", "upstream_error", "engine_error"]


class RequestHalf(msgspec.Struct, frozen=True, tag="request"):
    """What the agent asked, written while the engine computes.

    ``session_source`` says where ``session_id`` came from (header, url, body, inferred); ``headers`` holds only those of interest;
    ``affinity`` is the routing key, never the session's name. ``surrogates`` are what the gateway put into ``body`` for personal
    values; the answer to it is kept as the engine gave it, too. ``group`` names the task that several sessions attempt,
    ``group_size`` how many will (0: not said).
    """

    event_id: str
    completion_id: str
    tenant: str
    agent: str
    key_id: str
    session_id: str
    session_source: str
    dialect: str
    path: str
    model: str
    body: bytes
    headers: dict[str, str]
    started_us: int
    affinity: str = ""
    surrogates: list[str] = []
    group: str = ""
    group_size: int = 0


class ResponseHalf(msgspec.Struct, frozen=True, tag="response"):
    """What the agent got: ``body`` exactly as sent, the engine's ``record`` (JSON bytes, empty if none) taken out of it.

    ``lane`` is that of the ``worker``.
    """

    event_id: str
    status: int
    body: bytes
    record: bytes
    stream: bool
    delivery: Delivery
    worker: str
    first_byte_us: int
    ended_us: int
    error: str = ""
    lane: str = "stable"


Half = RequestHalf | ResponseHalf

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Half | list[Half]] = msgspec.msgpack.Decoder(Half | list[Half])


def encode_halves(halves: list[Half]) -> bytes:
    """msgpack of what one seal holds."""
    return _encoder.encode(halves)


def decode_halves(data: bytes) -> list[Half]:
    """The halves in ``data``: a list of them, or one alone.

    Raises:
        msgspec.DecodeError: ``data`` is of another writer's making.
    """
    found = _decoder.decode(data)
    return found if isinstance(found, list) else [found]
