"""What is asked: chat bodies of about 1 KB and 32 KB, streamed or not, as whole HTTP requests."""

import json
from dataclasses import dataclass
from typing import Literal

Prompt = Literal["1k", "32k"]
EVENTS_PER_STREAM = 100
GAP_US = 5000

_SENTENCE = "The customer writes that order 4711 arrived late and that one part is missing; please sort this ticket. "
_PROMPT_BYTES: dict[Prompt, int] = {"1k": 1_000, "32k": 32_000}
_MESSAGE_BYTES = 2_000


@dataclass(slots=True, frozen=True)
class Case:
    """One kind of traffic. ``gap_us`` is the engine's pause between two events of a stream; 0 where nothing is streamed."""

    prompt: Prompt = "1k"
    connections: int = 16
    gap_us: int = 0

    @property
    def stream(self) -> bool:
        """Whether answers are server-sent events."""
        return self.gap_us > 0

    @property
    def name(self) -> str:
        """``json-1k-c16`` or ``stream-5ms-1k-c16``."""
        kind = f"stream-{self.gap_us // 1000}ms" if self.stream else "json"
        return f"{kind}-{self.prompt}-c{self.connections}"

    @property
    def stagger_us(self) -> int:
        """How long each connection's start waits for the one before, so that streams do not tick together."""
        return self.gap_us // self.connections


def encode(case: Case, key: str, num_events: int = EVENTS_PER_STREAM) -> bytes:
    """The request of ``case`` with ``key`` as bearer key, head and body."""
    body: dict[str, object] = {"model": "tiny", "messages": _messages(_PROMPT_BYTES[case.prompt])}
    if case.stream:
        body |= {"stream": True, "max_tokens": num_events, "seed": case.gap_us}
    raw = json.dumps(body, separators=(",", ":")).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\nuser-agent: bench\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


def _messages(size_bytes: int) -> list[dict[str, str]]:
    """A conversation of about ``size_bytes``: a system message, then user and assistant in turn, two kilobytes each at most."""
    text = _SENTENCE * (size_bytes // len(_SENTENCE) + 1)
    parts = [text[at : min(at + _MESSAGE_BYTES, size_bytes)] for at in range(200, size_bytes, _MESSAGE_BYTES)]
    roles = ("user", "assistant")
    return [{"role": "system", "content": text[:200]}] + [{"role": roles[i % 2], "content": part} for i, part in enumerate(parts)]
