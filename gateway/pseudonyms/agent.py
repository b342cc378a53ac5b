"""The agent's side of a call with surrogates: whatever the relay writes reaches the agent with values.

The relay and the journal see what the engine said.
"""

from collections.abc import Sequence

import msgspec

from dataproxy.pseudonym_types import Form
from gateway.agent import Agent
from gateway.dialects import Dialect
from gateway.errors import Refused
from gateway.pseudonyms.restore import Restorer
from gateway.pseudonyms.slots import FORMS
from gateway.pseudonyms.streams import StreamRestorer
from gateway.upstream.connection import Head


class RestoringAgent:
    """Stands before ``agent``. ``forms`` lead back from every surrogate of the request."""

    _stream: StreamRestorer | None = None

    def __init__(self, agent: Agent, dialect: Dialect, forms: Sequence[Form]) -> None:
        self._agent = agent
        self._dialect = dialect
        self._restorer = Restorer(forms)

    def start_stream(self, head: Head) -> None:
        """Begin an answer that comes in pieces."""
        form = FORMS.get(self._dialect.name)
        self._stream = StreamRestorer(self._restorer, form) if form is not None else None
        self._agent.start_stream(head)

    def chunk(self, data: bytes) -> None:
        """The whole events that ``data`` completes."""
        made = self._stream.feed(data) if self._stream is not None else data
        if made:
            self._agent.chunk(made)

    def end_stream(self, status: int, data: bytes) -> None:
        """The rest, and the clean end."""
        made = self._stream.feed(data) + self._stream.end() if self._stream is not None else data
        self._agent.end_stream(status, made)

    def answer(self, head: Head, body: bytes) -> None:
        """A whole answer, or the engine's error, which may quote the request."""
        self._agent.answer(head, self._restored(body))

    def fail(self, refused: Refused) -> None:
        """A whole answer of ours: there is no surrogate in it."""
        self._agent.fail(refused)

    def cut(self, status: int, event: bytes) -> None:
        """End a stream without its end; what was held back goes with it."""
        self._agent.cut(status, event)

    def _restored(self, body: bytes) -> bytes:
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return body
        made = self._restorer.value(value)
        return body if made == value else msgspec.json.encode(made)
