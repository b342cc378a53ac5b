"""One admitted call: who, which session, what is asked, and under which ids it is known."""

import time

import msgspec

from dataproxy.capture.records import Delivery, RequestHalf, ResponseHalf
from gateway.dialects import Dialect
from gateway.groups import NO_GROUP, Group
from gateway.keys import Identity
from gateway.parsing import AgentRequest
from gateway.sessions import Session
from router.workers import Worker


class Call(msgspec.Struct):
    """``completion_id`` is the engine's request id and the agent's ``id``, empty where nothing is generated.

    ``forwarded`` are header lines for the engine. ``workers`` are those that may serve it, best first. ``first_byte_us`` is 0 until
    the engine answers. ``surrogates`` stand in the request for personal values; ``group`` is that of
    the session, where it is an attempt among several. A struct like others on this path: it is made three
    times as fast as a dataclass.
    """

    event_id: str
    completion_id: str
    identity: Identity
    session: Session
    request: AgentRequest
    dialect: Dialect
    forwarded: bytes
    recorded_headers: dict[str, str]
    workers: list[Worker] = []
    started_us: int = msgspec.field(default_factory=lambda: now_us())
    first_byte_us: int = 0
    surrogates: list[str] = []
    group: Group = NO_GROUP

    @property
    def recorded(self) -> bool:
        """Whether the call goes into the journal: the tenant's calls are recorded, and this one samples tokens."""
        return self.identity.record and self.dialect.generates

    @property
    def wants_record(self) -> bool:
        """Whether the engine is asked for its record: for the journal, or to charge a key with limits by what was used."""
        return self.dialect.generates and (self.identity.record or self.identity.limits is not None)

    def request_half(self) -> RequestHalf:
        """What the journal keeps of the question."""
        identity, session, dialect = self.identity, self.session, self.dialect
        return RequestHalf(
            event_id=self.event_id,
            completion_id=self.completion_id,
            tenant=identity.tenant,
            agent=identity.agent,
            key_id=identity.key_id,
            session_id=session.session_id,
            session_source=session.source,
            dialect=dialect.name,
            path=dialect.path,
            model=self.request.model,
            body=self.request.body,
            headers=self.recorded_headers,
            started_us=self.started_us,
            affinity=session.affinity.hex(),
            surrogates=self.surrogates,
            group=self.group.name,
            group_size=self.group.size,
        )

    def response_half(
        self, *, status: int, body: bytes, record: bytes, stream: bool, delivery: Delivery, worker: str, error: str, lane: str
    ) -> ResponseHalf:
        """What the journal keeps of the answer; it ends now."""
        return ResponseHalf(
            event_id=self.event_id,
            status=status,
            body=body,
            record=record,
            stream=stream,
            delivery=delivery,
            worker=worker,
            first_byte_us=self.first_byte_us,
            ended_us=now_us(),
            error=error,
            lane=lane,
        )


def now_us() -> int:
    """UTC in microseconds."""
    return time.time_ns() // 1000
