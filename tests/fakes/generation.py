"""What the fake engine computes: a made-up tokenizer and model, weight versions, pauses, aborts. Deterministic, and without SGLang.

One token is one UTF-8 byte, so a multi-byte character is several tokens. A reply is the last user message, or what a test has set.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.fakes.adapters import Adapters
from tests.fakes.dialects.parts import flat
from tests.fakes.weights import Weights
from workers.inference.record import Recorder

VOCABULARY_OFFSET = 100
STOP_ID = 2


def encode(text: str) -> list[int]:
    """The ids of ``text``: one a byte."""
    return [VOCABULARY_OFFSET + byte for byte in text.encode()]


def render(messages: list[dict[str, Any]]) -> list[int]:
    """The prompt ids of a conversation: the fake's chat template."""
    return [1, *(token for m in messages for token in encode(f"<{m['role']}>{flat(m.get('content'))}\n"))]


@dataclass
class Sample:
    """One choice while it is sampled."""

    index: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    matched: str | None = None

    def output(self) -> dict[str, Any]:
        """The same in the shape of SGLang's outputs."""
        spans: list[dict[str, Any]] = []
        for at, version in enumerate(self.versions):
            if not spans or spans[-1]["version"] != version:
                spans.append({"version": version, "start": at, "end": at})
            spans[-1]["end"] = at + 1
        meta = {
            "finish_reason": {"type": self.finish_reason},
            "completion_tokens": len(self.ids),
            "output_token_logprobs": [(lp, token, None) for lp, token in zip(self.logprobs, self.ids, strict=True)],
            "weight_versions": spans,
        }
        return {"output_ids": self.ids, "meta_info": meta}


@dataclass
class Model:
    """The engine's state. ``token_gate``, where a test sets one, is awaited before each token after the first."""

    weights: Weights = field(default_factory=Weights)
    adapters: Adapters = field(init=False)
    reply: Callable[[dict[str, Any]], str] = lambda body: str(body["messages"][-1]["content"])
    token_gate: Callable[[], Any] | None = None
    running: dict[str, asyncio.Event] = field(default_factory=dict)
    aborted: list[str] = field(default_factory=list)
    num_aborted: int = 0
    is_retracted: bool = False
    unpaused: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.adapters = Adapters(self.weights)
        self.unpaused.set()

    @property
    def version(self) -> str:
        """The version that is stamped on tokens of a request that begins now."""
        return self.adapters.version

    @version.setter
    def version(self, value: str) -> None:
        self.weights.version = value

    @property
    def may_flush(self) -> bool:
        """A prefix cache can be dropped while nothing runs, or while all that ran was retracted."""
        return not self.running or (self.is_retracted and not self.unpaused.is_set())

    def abort(self, rid: str) -> None:
        """Stop the running request ``rid``; every ask is kept in ``aborted``."""
        self.aborted.append(rid)
        if rid in self.running:
            self.running[rid].set()

    async def sample(self, rid: str, body: dict[str, Any], index: int) -> AsyncIterator[tuple[Sample, bytes]]:
        """Choice ``index`` after each token, and the token's byte; the last has a finish reason and may have no byte."""
        sample, stopped = Sample(index), self.running[rid]
        reply, matched, num_silent = stopped_at(self.reply(body), body.get("stop"))
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(reply) + 1
        adapter: str | None = None
        for at, byte in enumerate([*reply, None]):
            if at and self.token_gate is not None:
                await self.token_gate()
            await self.unpaused.wait()
            if not at and self.adapters.serving is not None:
                adapter = self.adapters.version
            if stopped.is_set():
                sample.finish_reason = "abort"
                self.num_aborted += 1
                yield sample, b""
                return
            sample.ids.append(STOP_ID if byte is None else VOCABULARY_OFFSET + byte)
            sample.logprobs.append(-(at + 1) / 100)
            sample.versions.append(adapter or self.weights.version)
            is_stop = byte is None or (matched is not None and at + 1 == len(reply))
            sample.finish_reason = "stop" if is_stop else ("length" if at + 1 == limit else None)
            sample.matched = matched if is_stop else None
            yield sample, b"" if byte is None or at >= len(reply) - num_silent else bytes([byte])
            if sample.finish_reason:
                return


def stopped_at(reply: str, stop: str | list[str] | None) -> tuple[bytes, str | None, int]:
    """The reply up to the end of its first stop string, that string, and how many of its last bytes are not told."""
    found = [(at, word) for word in ([stop] if isinstance(stop, str) else stop or []) if (at := reply.find(word)) >= 0]
    if not found:
        return reply.encode(), None, 0
    at, word = min(found)
    return reply[: at + len(word)].encode(), word, len(word.encode())


def recorder(rid: str, body: dict[str, Any]) -> Recorder:
    """A record that has the prompt and the sampling parameters, as SGLang would have filled them in."""
    made = Recorder(rid, body.get("model", "tiny"), "fake")
    made.expect(body.get("n") or 1)
    defaults = {"temperature": 1.0, "top_p": 1.0, "top_k": 1 << 30, "min_p": 0.0, "logit_bias": None, "ignore_eos": False}
    penalties = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0}
    lengths = {"max_new_tokens": body.get("max_tokens"), "min_new_tokens": 0, "stop_strs": body.get("stop"), "stop_token_ids": None}
    nothing = dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag", "custom_params"))
    given = {key: body[key] for key in defaults | penalties if body.get(key) is not None}
    made.on_dispatch(render(body["messages"]), SimpleNamespace(**(defaults | penalties | lengths | nothing | given)))
    return made
