"""Consent on record: who may be recorded, whose traffic may train. Append-only; the latest row of the narrowest scope holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, select

from atdp.ids import new_event_id
from dataproxy.client.types import Consent
from dataproxy.ledger.rows import append_rows
from dataproxy.store.schema import consent

INTERNAL = "internal:"
"""Agents of such a name are the system's own, such as a judge behind the gateway. An agent is what its key says, and only an
operator issues keys of such a one: no call can claim to be internal, or that it is not.
"""


def is_internal(agent: str) -> bool:
    """Whether calls of ``agent`` are the system's own: recorded and governed as any, and neither traffic nor ever trained on."""
    return agent.startswith(INTERNAL)


Beaten = Literal["", "agent", "tenant"]


@dataclass(slots=True, frozen=True)
class Held:
    """The word that holds for one scope, and what follows of it. ``beats``: whose broader word would hold without it."""

    word: Consent
    may_record: bool
    may_train: bool
    beats: Beaten


class ConsentBook:
    """All consents at one moment. Where nothing is on record the answer is no."""

    def __init__(self, rows: Iterable[Consent]) -> None:
        """``rows`` oldest first."""
        self._latest = {(row.tenant, row.agent, row.session_id): row for row in rows}

    @classmethod
    def read(cls, connection: Connection) -> "ConsentBook":
        """As the store has them now."""
        return cls(list_consents(connection, None))

    def may_record(self, tenant: str, agent: str) -> bool:
        """Whether calls of ``agent`` may be journaled."""
        row = self._holding(tenant, agent)
        return row is not None and row.recording

    def may_train(self, tenant: str, agent: str, session_id: str = "") -> bool:
        """Whether what was recorded of ``agent`` in ``session_id`` may train a policy."""
        row = self._latest.get((tenant, agent, session_id)) or self._holding(tenant, agent)
        return row is not None and row.recording and row.training and not is_internal(agent)

    def in_force(self) -> list[Held]:
        """What holds now, a row a scope: a tenant's, then its agents', each with its sessions behind it."""
        return [
            Held(row, self.may_record(row.tenant, row.agent), self.may_train(*scope), self._beaten(*scope))
            for scope, row in sorted(self._latest.items())
        ]

    def _holding(self, tenant: str, agent: str) -> Consent | None:
        return self._latest.get((tenant, agent, "")) or self._latest.get((tenant, "", ""))

    def _beaten(self, tenant: str, agent: str, session_id: str) -> Beaten:
        if session_id and (tenant, agent, "") in self._latest:
            return "agent"
        return "tenant" if agent and (tenant, "", "") in self._latest else ""


def list_consents(connection: Connection, tenant: str | None) -> list[Consent]:
    """Consents of ``tenant`` (None: of all), oldest first."""
    query = select(consent).order_by(consent.c.created_us, consent.c.consent_id)
    if tenant is not None:
        query = query.where(consent.c.tenant == tenant)
    return [
        Consent(row.tenant, row.recording, row.training, row.reason, row.agent, row.created_us, row.session_id, row.key_id)
        for row in connection.execute(query)
    ]


def add_consent(connection: Connection, item: Consent, key_id: str) -> None:
    """Put ``item`` on record, in the name of ``key_id``."""
    row = {
        "tenant": item.tenant,
        "consent_id": new_event_id(),
        "agent": item.agent,
        "session_id": item.session_id,
        "recording": item.recording,
        "training": item.training,
        "reason": item.reason,
        "key_id": key_id,
        "created_us": item.created_us,
    }
    connection.execute(consent.insert().values(row))
    append_rows(connection, consent, [row])
