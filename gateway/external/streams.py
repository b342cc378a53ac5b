"""Streams of external models as the agent's dialect has them, under our id, with the record before the event that ends them."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.errors import Refused
from gateway.external.errors import ProviderFailed
from gateway.external.record import Recorder
from gateway.external.usage import Usage, in_responses_form, read_usage

_LAST: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))


@dataclass(slots=True, frozen=True)
class Served:
    """One call: ``rid`` is its id, ``name`` the model as the agent knows it. ``wants_usage``: the agent asked for the last chunk.

    ``cost`` prices what was used; ``keep`` is told the provider's own id of the answer.
    """

    rid: str
    name: str
    recorder: Recorder
    cost: Callable[[Usage], float | None]
    keep: Callable[[str], None]
    wants_usage: bool = False

    def record(self, usage: Usage) -> bytes:
        """The record's JSON."""
        return self.recorder.encode(usage, self.cost(usage))

    def named(self, answer: dict[str, Any]) -> dict[str, Any]:
        """``answer`` under our id and name."""
        return answer | {"id": self.rid, "model": self.name}


async def chunks(given: AsyncIterator[dict[str, Any]], served: Served) -> AsyncIterator[bytes]:
    """Chat completions and legacy completions: what says that a choice is finished waits for the record, which comes last."""
    waiting: list[bytes] = []
    usage, finished = Usage(), False
    async for chunk in given:
        if counted := chunk.pop("usage", None):
            usage = read_usage(counted)
        if not chunk.get("choices"):
            if counted and served.wants_usage:
                counts = {name: value for name, value in counted.items() if name != "cost"}
                waiting.append(_data(served.named(chunk) | {"choices": [], "usage": counts}))
            continue
        data = _data(served.named(chunk))
        if any(choice.get("finish_reason") for choice in chunk["choices"]):
            waiting.append(data)
            finished = True
            continue
        for held in waiting:
            yield held
        waiting = []
        yield data
    if not finished:
        raise _cut_off()
    yield served.recorder.event(served.record(usage))
    for held in waiting:
        yield held
    yield b"data: [DONE]\n\n"


async def items(given: AsyncIterator[dict[str, Any]], served: Served) -> AsyncIterator[bytes]:
    """The events of Responses, numbered; the record stands before the last."""
    number, finished = 0, False
    async for event in given:
        response = event.get("response")
        if isinstance(response, dict):
            served.keep(str(response.get("id", "")))
            usage = {"usage": in_responses_form(response["usage"])} if response.get("usage") else {}
            event["response"] = served.named(response) | usage
        if event["type"] in _LAST:
            finished = True
            yield served.recorder.event(served.record(read_usage((event.get("response") or {}).get("usage"))))
        yield b"event: %b\n" % event["type"].encode() + _data(event | {"sequence_number": number})
        number += 1
    if not finished:
        raise _cut_off()


async def blocks(given: AsyncIterator[bytes], served: Served) -> AsyncIterator[bytes]:
    """The events of Messages; the record stands before the one that says why the model stopped."""
    used: dict[str, Any] = {}
    recorded = False
    async for raw in _whole_events(given):
        event = _json(raw)
        kind = event.get("type")
        if kind == "message_start":
            used |= event["message"].get("usage") or {}
            yield b"event: message_start\n" + _data(event | {"message": served.named(event["message"])})
            continue
        if kind in ("message_delta", "message_stop") and not recorded:
            used |= {name: count for name, count in (event.get("usage") or {}).items() if count is not None}
            recorded = True
            yield served.recorder.event(served.record(read_usage(used)))
        yield raw + b"\n\n"
        if kind == "error":
            return
    if not recorded:
        raise _cut_off()


def _cut_off() -> ProviderFailed:
    """The provider's stream ended and its answer had not: an agent must not take it for whole."""
    return ProviderFailed(Refused(502, "provider_lost", "the provider ended its stream before the end of the answer; try again"))


async def _whole_events(given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for part in given:
        *whole, rest = (rest + part.replace(b"\r\n", b"\n")).split(b"\n\n")
        for event in whole:
            if event.strip():
                yield event
    if rest.strip():
        yield rest


def _json(event: bytes) -> dict[str, Any]:
    data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
