"""One exchange in the clear, parsed once: what the agent asked, what it got, what the engine sampled. Lives in memory only."""

from dataclasses import dataclass
from typing import Any

import msgspec

from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.drain.answers import read_answer
from dataproxy.drain.engine_record import EngineRecord, SampledTokens, read_record, sampled_tokens
from dataproxy.errors import Unprocessable


@dataclass(slots=True, frozen=True)
class RawExchange:
    """Two halves of one call; no response: its gateway died before the answer was durable."""

    request: RequestHalf
    response: ResponseHalf | None


@dataclass(slots=True, frozen=True)
class ParsedExchange:
    """``request`` and ``answer`` are JSON values; ``tokens`` has one entry a recorded choice."""

    raw: RawExchange
    request: dict[str, Any]
    answer: dict[str, Any]
    record: EngineRecord | None
    tokens: list[SampledTokens]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages, those that are objects."""
        messages = self.request.get("messages")
        return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []

    @property
    def delivery(self) -> str:
        """How the answer reached the agent; ``incomplete`` where nobody knows."""
        return self.raw.response.delivery if self.raw.response is not None else "incomplete"


def parse(raw: RawExchange) -> ParsedExchange:
    """Read both bodies and the record.

    Raises:
        Unprocessable: the request is no JSON object, or the record is not what it says.
    """
    try:
        request = msgspec.json.decode(raw.request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unprocessable("request_not_json") from error
    if not isinstance(request, dict):
        raise Unprocessable("request_not_object")
    response = raw.response
    answer = read_answer(response.body, response.stream) if response is not None else {}
    record = read_record(response.record) if response is not None and response.record else None
    return ParsedExchange(raw, request, answer, record, sampled_tokens(record) if record is not None else [])
