"""The agent's side of a call, as the relay sees it."""

from typing import Protocol

from gateway.errors import Refused
from gateway.upstream.connection import Head


class Agent(Protocol):
    """The agent's side: what the relay writes to. Writes to an agent that has left do nothing."""

    def start_stream(self, head: Head) -> None:
        """Begin an answer that comes in pieces, under the engine's ``head``."""

    def chunk(self, data: bytes) -> None:
        """A piece."""

    def end_stream(self, status: int, data: bytes) -> None:
        """The last piece and the clean end; the call is over."""

    def answer(self, head: Head, body: bytes) -> None:
        """A whole answer under the engine's ``head``; the call is over."""

    def fail(self, refused: Refused) -> None:
        """A whole answer of ours; the call is over."""

    def cut(self, status: int, event: bytes) -> None:
        """End a stream without its end, after ``event``; the call is over."""
