"""One exchange in the clear, parsed once: what the agent asked, what it got, what the engine sampled. Lives in memory only."""

from dataclasses import dataclass
from typing import Any

import msgspec

from atdp.ids import event_id_in
from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.digests import KeyedDigests
from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import dialect_of
from dataproxy.drain.engine_record import EngineRecord, SampledTokens, read_record, sampled_tokens
from dataproxy.drain.payloads import conceal
from dataproxy.errors import Unprocessable


@dataclass(slots=True, frozen=True)
class RawExchange:
    """Two halves of one call; no response: its gateway died before the answer was durable."""

    request: RequestHalf
    response: ResponseHalf | None


@dataclass(slots=True, frozen=True)
class ParsedExchange:
    """``request`` and ``answer`` in the normal form of ``dataproxy.drain.dialects``; ``tokens`` has one entry a recorded choice.

    ``user`` names whom the agent serves; ``previous`` is the event whose stored conversation the request continues; "" for none.
    ``prefilled``: the answer goes on with the last message.
    """

    raw: RawExchange
    request: dict[str, Any]
    answer: dict[str, Any]
    record: EngineRecord | None
    tokens: list[SampledTokens]
    user: str
    previous: str
    prefilled: bool = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages, those that are objects."""
        messages = self.request.get("messages")
        return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []

    @property
    def conversation(self) -> list[dict[str, Any]]:
        """The messages, behind a mark of those that lie in the engine: another conversation's equal turns are not these."""
        return [{"role": "previous", "content": self.previous}, *self.messages] if self.previous else self.messages

    def as_echoed(self, message: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """An answer as an agent will echo it, and how many messages of the conversation it follows."""
        before = self.conversation
        if not self.prefilled or not before or before[-1].get("role") != "assistant":
            return message, len(before)
        begun, said = before[-1].get("content"), message.get("content")
        joined = begun + (said or "") if isinstance(begun, str) and isinstance(said, str | None) else said
        return {**message, "content": joined}, len(before) - 1

    @property
    def delivery(self) -> str:
        """How the answer reached the agent; ``incomplete`` where nobody knows."""
        return self.raw.response.delivery if self.raw.response is not None else "incomplete"


def parse(raw: RawExchange, digests: KeyedDigests) -> ParsedExchange:
    """Read both bodies and the record.

    Raises:
        Unprocessable: the request is no JSON object, its dialect is unknown, or the record is not what it says.
    """
    dialect = dialect_of(raw.request.dialect)
    try:
        body = msgspec.json.decode(raw.request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unprocessable("request_not_json") from error
    if not isinstance(body, dict):
        raise Unprocessable("request_not_object")
    request, response = dialect.request(body), raw.response
    answer = read_answer(dialect, response.body, response.stream) if response is not None else {}
    record = read_record(response.record) if response is not None and response.record else None
    return ParsedExchange(
        raw=raw,
        request=conceal(request.body, digests),
        answer=conceal(answer, digests),
        record=record,
        tokens=sampled_tokens(record, _answered(answer)) if record is not None else [],
        user=request.user,
        previous=event_id_in(request.previous) or "",
        prefilled=request.prefilled,
    )


def _answered(answer: dict[str, Any]) -> list[int] | None:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    return [choice.get("index", i) if isinstance(choice, dict) else i for i, choice in enumerate(choices)]
