"""What a lease takes out of the vault: sealed segments, and for a trainer the keys. Each key handed over is a read on record."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from sqlalchemy import Connection, select

from atdp.samples import TrainSample
from dataproxy.assemble.sequences import Choice
from dataproxy.capture.errors import KeyUnusable
from dataproxy.client.types import KeyInfo
from dataproxy.store.access import record_access
from dataproxy.store.schema import vault_segment
from dataproxy.vault.approvals import ApprovalBook
from dataproxy.vault.keys import stored_keys, unwrap

logger = logging.getLogger(__name__)
_CHUNK = 500


@dataclass(slots=True)
class Lending:
    """For one lease: to whom, with which private key (read when needed), and when."""

    reader: KeyInfo
    private: Callable[[], bytes]
    now_us: int
    _keys: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def sealed(self, connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, dict[Choice, bytes]]:
        """Trajectory → its sealed choices, of those whose key may be handed over.

        Raises:
            FileNotFoundError: the vault's private key does not lie on this machine.
        """
        names = self._open(connection, tenant, trajectory_ids)
        found: dict[str, dict[Choice, bytes]] = defaultdict(dict)
        for start in range(0, len(names), _CHUNK):
            named = vault_segment.c.trajectory_id.in_(names[start : start + _CHUNK])
            for row in connection.execute(select(vault_segment).where(vault_segment.c.tenant == tenant, named)):
                found[row.trajectory_id][row.event_id, row.choice] = row.sealed
        return found

    def hand_over(self, connection: Connection, samples: Sequence[TrainSample], lease_id: str) -> list[TrainSample]:
        """``samples``, those with sealed rows with their key; that each is opened is on record when this transaction commits."""
        opened = []
        for sample in samples:
            if any(sequence.vaulted for sequence in sample.sequences):
                why = f"training, {lease_id}"
                record_access(connection, self.reader, sample.tenant, "vault", sample.trajectory_id, self.now_us, why)
                sample = msgspec.structs.replace(sample, vault_key=self._keys[sample.tenant, sample.trajectory_id])
            opened.append(sample)
        return opened

    def _open(self, connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> list[str]:
        """Unwrap the keys that have not expired and whose approval is in force; gives their trajectories."""
        stored = stored_keys(connection, tenant, trajectory_ids)
        in_force = ApprovalBook.read(connection).ids if stored else frozenset()
        names = []
        for name, key in sorted(stored.items()):
            if key.expires_us <= self.now_us or key.approval_id not in in_force:
                continue
            try:
                self._keys[tenant, name] = unwrap(self.private(), tenant, key)
            except KeyUnusable as error:
                logger.error("the vault's key of trajectory %s cannot be used: %s", name, error)
                continue
            names.append(name)
        return names
