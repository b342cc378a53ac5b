"""Seals raw tokens in the transaction that stores their exchange; the drain's side."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from dataproxy.capture.errors import KeyUnusable
from dataproxy.client.vaulted import RawTokens, seal_tokens
from dataproxy.keyfiles import KeyFiles
from dataproxy.store.dialect import insert_new
from dataproxy.store.schema import vault_segment
from dataproxy.vault.keys import make_key, stored_keys, unwrap

logger = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class ToSeal:
    """The raw tokens of an exchange's eligible choices, and the approval under which they may be kept: its id and days."""

    tenant: str
    trajectory_id: str
    event_id: str
    tokens: dict[int, RawTokens]
    approval: tuple[str, float]


class VaultWriter:
    """``files`` hold the vault's pair of keys; they are read only once there is something to seal."""

    def __init__(self, files: KeyFiles, now_us: Callable[[], int]) -> None:
        self._files = files
        self._now_us = now_us

    def seal(self, connection: Connection, items: Iterable[ToSeal]) -> None:
        """Store ``items``. A trajectory whose time is over, or whose key was changed, takes nothing more.

        Raises:
            FileNotFoundError: the vault's keys do not lie on this machine; `headrace up` makes them.
        """
        by_tenant: dict[str, list[ToSeal]] = defaultdict(list)
        for item in items:
            by_tenant[item.tenant].append(item)
        for tenant, mine in by_tenant.items():
            self._seal(connection, tenant, mine)

    def _seal(self, connection: Connection, tenant: str, items: list[ToSeal]) -> None:
        now_us = self._now_us()
        known = stored_keys(connection, tenant, (item.trajectory_id for item in items))
        late = {name for name, stored in known.items() if stored.expires_us <= now_us}
        keys: dict[str, bytes] = {}
        for name in known.keys() - late:
            try:
                keys[name] = unwrap(self._files.vault_private(), tenant, known[name])
            except KeyUnusable as error:
                logger.error("nothing more of trajectory %s goes into the vault: %s", name, error)
                late.add(name)
        rows = []
        for item in items:
            name = item.trajectory_id
            if name in late:
                continue
            if name not in keys:
                keys[name] = make_key(connection, self._files.vault_public(), tenant, name, item.approval, now_us)
            for choice, tokens in item.tokens.items():
                sealed = seal_tokens(keys[name], tokens, tenant, item.event_id, choice)
                row = {"tenant": tenant, "event_id": item.event_id, "choice": choice, "trajectory_id": name}
                rows.append(row | {"sealed": sealed})
        insert_new(connection, vault_segment, rows)
