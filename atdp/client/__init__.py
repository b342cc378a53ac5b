"""Sends events to a Headrace gateway: in batches, again until there is a receipt, from a buffer on disk where one is named.

Standard library and msgspec only, so that an agent can take it along. The one part of ``atdp`` that opens sockets and files.

>>> from atdp.client import EventClient
>>> with EventClient("http://127.0.0.1:8080", "hr_…", buffer=Path("events")) as client:
...     client.record("retrieval", session_id="s1", o={"query": "refund"}, y={"chunks": ["…"]})
"""

from atdp.client.aio import AsyncEventClient
from atdp.client.errors import BufferFull, BufferInUse, ClientError, Denied, NotSent
from atdp.client.sending import Outcome
from atdp.client.sync import EventClient

__all__ = ["AsyncEventClient", "BufferFull", "BufferInUse", "ClientError", "Denied", "EventClient", "NotSent", "Outcome"]
