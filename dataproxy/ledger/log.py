"""Appending to the log, inside the transaction that stores the rows: chains, leaves, salts, and each tenant's frontier.

Nothing is recomputed: a batch costs two hashes and an HMAC a leaf. Several processes may append; each holds the tenant's head row.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, and_, bindparam, func, select, text, update

from dataproxy.ledger.leaf import FIRST, SALT_SIZE, Leaf, commit, hash_of, with_position
from dataproxy.ledger.merkle import Frontier
from dataproxy.store.dialect import insert_all, insert_new
from dataproxy.store.schema import log_head, log_leaf, log_salt

_CHUNK = 500


@dataclass(slots=True, frozen=True)
class Head:
    """Where a tenant's log ends. Events are committed to by their position less ``base_position``."""

    frontier: Frontier
    base_position: int


def append(connection: Connection, leaves: Sequence[Leaf]) -> None:
    """Put ``leaves`` at the end of their tenants' logs, in order.

    Raises:
        IntegrityError: a row has a leaf already.
    """
    by_tenant: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        by_tenant[leaf.tenant].append(leaf)
    for tenant in sorted(by_tenant):
        _append(connection, tenant, by_tenant[tenant])


def lock_logs(connection: Connection, tenants: Iterable[str]) -> None:
    """Keep other writers out of the logs of ``tenants`` until the transaction ends: what they store first is theirs to prove."""
    for tenant in sorted(tenants):
        _locked_head(connection, tenant)


def read_head(connection: Connection, tenant: str, lock: bool = False) -> Head | None:
    """The head of ``tenant``'s log, None before its first leaf; ``lock`` keeps other writers out until the transaction ends."""
    row = connection.execute(_LOCKED_HEAD if lock else _HEAD, {"owner": tenant}).first()
    return Head(Frontier.decode(row.size, row.frontier), row.base_position) if row is not None else None


def _locked_head(connection: Connection, tenant: str) -> Head:
    head = read_head(connection, tenant, lock=True)
    if head is not None:
        return head
    insert_new(connection, log_head, [{"tenant": tenant, "size": 0, "frontier": b"", "base_position": 0}])
    return _locked_head(connection, tenant)


def _append(connection: Connection, tenant: str, leaves: list[Leaf]) -> None:
    head = _locked_head(connection, tenant)
    chains = _ends_of_chains(connection, tenant, {leaf.chain for leaf in leaves if leaf.chain})
    frontier, salts, rows, salt_rows = head.frontier, os.urandom(SALT_SIZE * len(leaves)), [], []
    for number, leaf in enumerate(leaves):
        index, salt = frontier.size, salts[number * SALT_SIZE : (number + 1) * SALT_SIZE]
        content = leaf.content if leaf.position is None else with_position(leaf.content, leaf.position - head.base_position)
        commitment = commit(salt, content)
        previous = chains.get(leaf.chain, FIRST) if leaf.chain else b""
        hashed = hash_of(tenant, index, leaf.kind, leaf.row_key, leaf.chain, previous, commitment)
        frontier.push(hashed)
        if leaf.chain:
            chains[leaf.chain] = hashed
        rows.append(
            {
                "tenant": tenant,
                "leaf_index": index,
                "kind": leaf.kind,
                "row_key": leaf.row_key,
                "chain": leaf.chain,
                "previous": previous,
                "commitment": commitment,
                "leaf_hash": hashed,
            }
        )
        salt_rows.append({"tenant": tenant, "leaf_index": index, "salt": salt})
    insert_all(connection, log_leaf, rows)
    insert_all(connection, log_salt, salt_rows)
    connection.execute(_GROWN, {"owner": tenant, "size": frontier.size, "frontier": frontier.encode()})


def _ends_of_chains(connection: Connection, tenant: str, chains: Iterable[str]) -> dict[str, bytes]:
    """Chain → the hash of its last leaf."""
    names, found = sorted(chains), {}
    for start in range(0, len(names), _CHUNK):
        for row in connection.execute(_ENDS, {"owner": tenant, "names": names[start : start + _CHUNK]}):
            found[row.chain] = row.leaf_hash
    return found


def _query_of_ends() -> Select[tuple[str, bytes]]:
    mine = (log_leaf.c.tenant == bindparam("owner"), log_leaf.c.chain.in_(bindparam("names", expanding=True)), text("chain <> ''"))
    last = select(log_leaf.c.chain, func.max(log_leaf.c.leaf_index).label("last")).where(*mine).group_by(log_leaf.c.chain)
    ends = last.subquery()
    same = and_(log_leaf.c.tenant == bindparam("owner"), log_leaf.c.leaf_index == ends.c.last)
    return select(ends.c.chain, log_leaf.c.leaf_hash).join(log_leaf, same)


_HEAD = select(log_head).where(log_head.c.tenant == bindparam("owner"))
_LOCKED_HEAD = _HEAD.with_for_update()
_ENDS = _query_of_ends()
_GROWN = update(log_head).where(log_head.c.tenant == bindparam("owner"))
