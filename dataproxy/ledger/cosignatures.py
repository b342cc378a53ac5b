"""Cosignatures in the store: what a witness is asked, what it answered, and what an audit demands of them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from dataproxy.client.review_types import AuditProblem
from dataproxy.errors import NotFound, Refused
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.merkle import Tree
from dataproxy.ledger.witness import Request, WitnessVerifier, body_of
from dataproxy.store.dialect import insert_new
from dataproxy.store.schema import checkpoint, cosignature, log_leaf

_AHEAD_S = 300
"""A witness's clock may be ahead of ours by that much."""


def request_for(connection: Connection, tenant: str, old: int) -> Request:
    """What a witness that has seen ``old`` leaves of ``tenant``'s log needs to cosign its last checkpoint.

    Raises:
        NotFound: the tenant has no checkpoint. Refused: it has fewer leaves.
    """
    last = select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size.desc()).limit(1)
    row = connection.execute(last).first()
    if row is None:
        raise NotFound(f"no checkpoint of {tenant}; one is cut every minute")
    if old > row.size:
        raise Refused(f"the last checkpoint of {tenant} has {row.size} leaves, not {old}")
    hashes = select(log_leaf.c.leaf_hash).where(log_leaf.c.tenant == tenant, log_leaf.c.leaf_index < row.size)
    tree = Tree(list(connection.execute(hashes.order_by(log_leaf.c.leaf_index)).scalars()))
    return Request(old, tree.consistency(old, row.size), row.note)


def add_cosignature(connection: Connection, tenant: str, witness: WitnessVerifier, line: str, now_us: int) -> tuple[int, int]:
    """Keep a witness's signature ``line``; gives the size of the checkpoint that it is of, and when it was signed (POSIX seconds).

    Raises:
        Refused: it is of no checkpoint of this log, or from the future.
    """
    query = select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size.desc())
    for row in connection.execute(query):
        try:
            seconds = witness.signed_at(line, body_of(row.note))
        except NoteInvalid:
            continue
        if seconds > now_us // 1_000_000 + _AHEAD_S:
            raise Refused("the cosignature is from the future; set the witness's clock")
        kept = {"tenant": tenant, "size": row.size, "witness": witness.label[:128], "signed_s": seconds}
        insert_new(connection, cosignature, [kept | {"line": line.strip(), "added_us": now_us}])
        return row.size, seconds
    raise Refused(f"it is no cosignature of {witness.name} on a checkpoint of {tenant}")


def lines_of(connection: Connection, tenant: str) -> dict[int, list[str]]:
    """Size of a checkpoint → the lines of its witnesses, by time."""
    found: dict[int, list[str]] = defaultdict(list)
    query = select(cosignature.c.size, cosignature.c.line).where(cosignature.c.tenant == tenant)
    for row in connection.execute(query.order_by(cosignature.c.size, cosignature.c.signed_s, cosignature.c.witness)):
        found[row.size].append(row.line)
    return found


def witnessed(
    connection: Connection, tenant: str, notes: dict[int, str], witnesses: Sequence[WitnessVerifier]
) -> Iterator[tuple[str, int] | AuditProblem]:
    """For each witness (label, leaves of the largest checkpoint that it cosigned), or what is wrong. ``notes`` are by size."""
    rows = connection.execute(select(cosignature).where(cosignature.c.tenant == tenant).order_by(cosignature.c.size)).all()
    for witness in witnesses:
        largest = 0
        for row in rows:
            if row.witness != witness.label[:128]:
                continue
            try:
                seconds = witness.signed_at(row.line, body_of(notes.get(row.size, "")))
            except NoteInvalid as error:
                yield AuditProblem(tenant, "cosignature", f"{row.size}/{row.witness}", str(error))
                continue
            if seconds != row.signed_s:
                yield AuditProblem(tenant, "cosignature", f"{row.size}/{row.witness}", "it was signed at another time")
            largest = max(largest, row.size)
        if largest:
            yield witness.label, largest
        elif notes:
            yield AuditProblem(tenant, "cosignature", witness.label, "no checkpoint of this log bears its signature")
