"""Which tables are in the log, and how a row of each is named there.

Events carry what hangs on them: spans, decisions, tokens, contents that they were first to store. A content that outlived its event
has a leaf of its own. An erasure carries what it left. Every other row stands alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table

from dataproxy.ledger.content import row_content
from dataproxy.ledger.leaf import Leaf
from dataproxy.ledger.log import append
from dataproxy.store.schema import (
    access_log,
    batch,
    consent,
    legal_hold,
    policy_version_state,
    quarantine,
    recording_policy,
    redaction_policy,
    retention_policy,
    review_mark,
    reward,
    training_use,
    vault_approval,
    version_order,
)


@dataclass(slots=True, frozen=True)
class Plain:
    """A table whose rows stand alone: the columns that name a row inside its tenant, and the one that names its chain."""

    table: Table
    key: tuple[str, ...]
    chain: str | None = None


PLAIN = {
    kind.table.name: kind
    for kind in (
        Plain(reward, ("reward_id",), "trajectory_id"),
        Plain(consent, ("consent_id",)),
        Plain(training_use, ("trajectory_id", "version"), "trajectory_id"),
        Plain(batch, ("batch_id",)),
        Plain(policy_version_state, ("position",)),
        Plain(quarantine, ("event_id",)),
        Plain(access_log, ("event_id",)),
        Plain(legal_hold, ("hold_id", "action")),
        Plain(retention_policy, ("policy_id",)),
        Plain(recording_policy, ("policy_id",)),
        Plain(redaction_policy, ("policy_id",)),
        Plain(vault_approval, ("approval_id", "action")),
        Plain(review_mark, ("mark_id",)),
        Plain(version_order, ("order_id", "state")),
    )
}


def append_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put ``rows`` of a plain table, stored in this transaction, in their tenants' logs."""
    kind = PLAIN[table.name]
    append(connection, [row_leaf(kind, row) for row in rows])


def key_of(kind: Plain, row: Mapping[str, Any]) -> str:
    """The row's name in the log."""
    return "/".join(str(row[column]) for column in kind.key)


def row_leaf(kind: Plain, row: Mapping[str, Any]) -> Leaf:
    """The leaf of a row that stands alone."""
    chain = row[kind.chain] if kind.chain is not None else ""
    return Leaf(row["tenant"], kind.table.name, key_of(kind, row), chain, row_content(kind.table, row))
