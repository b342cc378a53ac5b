"""The record of an external model's answer: whose it was, what it used, what it cost. No tokens: they are nobody's here."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.external.usage import Usage

ENGINE: Final = "litellm"
_VERSION: Final = 1


@dataclass(slots=True, frozen=True)
class Recorder:
    """Makes the record of one call. ``wanted``: the gateway asked for it."""

    rid: str
    model: str
    engine_version: str
    wanted: bool

    def encode(self, usage: Usage, cost_usd: float | None) -> bytes:
        """The record's JSON; ``cost_usd`` None: nobody knows the price."""
        body: dict[str, Any] = {"v": _VERSION, "rid": self.rid, "model": self.model}
        body["engine"] = {"name": ENGINE, "version": self.engine_version}
        body |= {"cost_usd": cost_usd} if cost_usd is not None else {}
        return msgspec.json.encode(body | {"usage": usage.counts()})

    def into_json(self, answer: bytes, record: bytes) -> bytes:
        """``answer``, a JSON object, with the record as its last field."""
        return answer[:-1] + b',"headrace_record":' + record + b"}" if self.wanted else answer

    def event(self, record: bytes) -> bytes:
        """The record as an event of a stream; empty where it is not wanted."""
        return b"event: headrace.record\ndata: " + record + b"\n\n" if self.wanted else b""
