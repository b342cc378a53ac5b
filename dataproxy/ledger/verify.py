"""The audit: every leaf of every log against its row, chain, tree and signed checkpoints, and every row against the log.

Reads one snapshot and a file, changes nothing. It goes on after a fault, so that its report names the first bad rows in order.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import SQLAlchemyError

from dataproxy.client.review_types import AuditProblem, AuditProgress, AuditReport
from dataproxy.ledger.checkpoints import Line
from dataproxy.ledger.cosignatures import witnessed
from dataproxy.ledger.erased import erasure_contents, erasures_of
from dataproxy.ledger.leaf import FIRST, commit, hash_of
from dataproxy.ledger.merkle import EMPTY_ROOT, Frontier
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.rows import PLAIN
from dataproxy.ledger.signed import check_checkpoints
from dataproxy.ledger.stored import UNREADABLE, stored_contents
from dataproxy.ledger.unlogged import HANGING, unlogged_rows
from dataproxy.ledger.witness import WitnessVerifier
from dataproxy.store.schema import checkpoint, content, content_span, erasure, event, log_head, log_leaf, log_salt, tombstone

_PAGE = 500
_MOST_PROBLEMS = 50
_KINDS = {"event", "content", "erasure", *PLAIN}
_LOGGED = (log_head, log_leaf, log_salt, checkpoint, tombstone, erasure, event, *HANGING, content, content_span)
"""Tables that the log answers for, but those whose rows stand alone."""


def verify(
    connection: Connection,
    tenant: str | None,
    verifier: NoteVerifier,
    filed: Sequence[Line],
    witnesses: Sequence[WitnessVerifier] = (),
) -> Iterator[AuditProgress | AuditReport]:
    """Check the log of ``tenant`` (None: of all); progress after each page, and the report last. ``filed``: the file's lines.

    Each of ``witnesses`` must have cosigned a checkpoint of each log.
    """
    tenants = _tenants(connection, filed) if tenant is None else [tenant]
    total = sum(_num_leaves(connection, owner) for owner in tenants)
    problems: list[AuditProblem] = []
    witnessed_by: dict[str, int] = {}
    done = num_checkpoints = num_erased = 0
    for owner in tenants:
        audit = _Audit(connection, owner, verifier, [line for line in filed if line.tenant == owner])
        try:
            for num in audit.run():
                yield AuditProgress(owner, done + num, total)
        except SQLAlchemyError as error:
            audit.fault("database", "", f"it cannot be read: {type(error).__name__}")
        done += audit.num_leaves
        num_checkpoints += audit.num_checkpoints
        num_erased += audit.num_erased
        problems += audit.problems
        for found in witnessed(connection, owner, audit.notes, witnesses):
            if isinstance(found, AuditProblem):
                problems.append(found)
            else:
                witnessed_by[f"{owner or 'operator'} {found[0]}"] = found[1]
    counts = (len(tenants), done, num_erased, num_checkpoints)
    yield AuditReport(not problems, *counts, problems[:_MOST_PROBLEMS], len(problems), witnessed_by)


def _tenants(connection: Connection, filed: Sequence[Line]) -> list[str]:
    found = {line.tenant for line in filed}
    for table in (*_LOGGED, *(kind.table for kind in PLAIN.values())):
        found.update(connection.execute(select(table.c.tenant).distinct()).scalars())
    return sorted(found)


def _num_leaves(connection: Connection, tenant: str) -> int:
    return connection.execute(select(func.count()).select_from(log_leaf).where(log_leaf.c.tenant == tenant)).scalar_one()


class _Audit:
    """One tenant's."""

    def __init__(self, connection: Connection, tenant: str, verifier: NoteVerifier, filed: list[Line]) -> None:
        self._connection = connection
        self._tenant = tenant
        self._verifier = verifier
        self._filed = filed
        self._frontier = Frontier()
        self._chains: dict[str, bytes] = {}
        self._roots = {0: EMPTY_ROOT}
        self._base = 0
        self._has_events = False
        self.num_leaves = self.num_checkpoints = self.num_erased = 0
        self.problems: list[AuditProblem] = []
        self.notes: dict[int, str] = {}
        """Of the stored checkpoints, by size."""

    def run(self) -> Iterator[int]:
        """All checks; gives the number of leaves done so far."""
        head = self._connection.execute(select(log_head).where(log_head.c.tenant == self._tenant)).first()
        self._base = head.base_position if head is not None else 0
        stored = self._checkpoints()
        self.num_checkpoints = len(stored)
        self.notes = {line.size: line.note for line in stored}
        wanted = {line.size for line in (*stored, *self._filed)}
        last = -1
        while page := self._page(last):
            self._check_page(page, wanted)
            last = page[-1].leaf_index
            yield self.num_leaves
        self._check_head(head)
        for problem in check_checkpoints(self._tenant, stored, self._filed, self._verifier, self._roots, self._frontier.size):
            self.problems.append(problem)
        self.problems.extend(unlogged_rows(self._connection, self._tenant))

    def fault(self, table: str, key: str, what: str) -> None:
        """Put a problem into the report."""
        self.problems.append(AuditProblem(self._tenant, table, key, what))

    def _page(self, last: int) -> list[Row[tuple[object, ...]]]:
        where = (log_leaf.c.tenant == self._tenant, log_leaf.c.leaf_index > last)
        query = select(log_leaf).where(*where).order_by(log_leaf.c.leaf_index).limit(_PAGE)
        return list(self._connection.execute(query).all())

    def _checkpoints(self) -> list[Line]:
        query = select(checkpoint).where(checkpoint.c.tenant == self._tenant).order_by(checkpoint.c.size)
        return [Line(row.tenant, row.size, row.cut_us, row.note) for row in self._connection.execute(query)]

    def _check_page(self, page: list[Row[tuple[object, ...]]], wanted: set[int]) -> None:
        for leaf in page:
            self._check_leaf(leaf)
            if self._frontier.size in wanted:
                self._roots[self._frontier.size] = self._frontier.root()
        salts, erased = self._salts(page), erasures_of(self._connection, self._tenant, page)
        contents = self._contents([leaf for leaf in page if leaf.leaf_index not in erased])
        for leaf in page:
            salt, data = salts.get(leaf.leaf_index), contents.get((leaf.kind, leaf.row_key))
            what = row_fault(leaf, salt, data, leaf.leaf_index in erased)
            if what:
                self.fault(leaf.kind, leaf.row_key, what)
            self._has_events |= leaf.kind == "event"
        self.num_leaves += len(page)
        self.num_erased += len(erased)

    def _check_leaf(self, leaf: Row[tuple[object, ...]]) -> None:
        """Its place, its chain and its hash; the tree goes on with what it should be."""
        index, key = self._frontier.size, str(leaf.leaf_index)
        if leaf.leaf_index != index:
            self.fault("log_leaf", str(index), f"leaf {index} is gone; {leaf.leaf_index} stands in its place")
        previous = self._chains.get(leaf.chain, FIRST) if leaf.chain else b""
        if leaf.previous != previous:
            self.fault("log_leaf", key, f"the chain of {leaf.chain or leaf.kind} is broken before it")
        hashed = _hash(self._tenant, leaf)
        if leaf.leaf_hash != hashed:
            self.fault("log_leaf", key, f"the leaf of {leaf.kind} {leaf.row_key} is not what was hashed")
        if leaf.chain:
            self._chains[leaf.chain] = leaf.leaf_hash
        self._frontier.push(hashed)

    def _salts(self, page: list[Row[tuple[object, ...]]]) -> dict[int, bytes | str]:
        """Leaf index → salt, of those leaves of ``page`` that have one."""
        between = log_salt.c.leaf_index.between(page[0].leaf_index, page[-1].leaf_index)
        query = select(log_salt.c.leaf_index, log_salt.c.salt).where(log_salt.c.tenant == self._tenant, between)
        return {row.leaf_index: row.salt for row in self._connection.execute(query)}

    def _contents(self, leaves: list[Row[tuple[object, ...]]]) -> dict[tuple[str, str], bytes]:
        keys: dict[str, list[str]] = defaultdict(list)
        for leaf in leaves:
            keys[leaf.kind].append(leaf.row_key)
        found: dict[tuple[str, str], bytes] = {}
        for kind, named in keys.items():
            read = erasure_contents(self._connection, self._tenant, named, self._base) if kind == "erasure" else None
            rows = read if read is not None else stored_contents(self._connection, self._tenant, kind, named, self._base)
            found |= {(kind, key): data for key, data in rows.items()}
        return found

    def _check_head(self, head: Row[tuple[object, ...]] | None) -> None:
        size, edge = (head.size, head.frontier) if head is not None else (0, b"")
        if size != self._frontier.size:
            self.fault("log_head", "", f"it says {size} leaves and the log has {self._frontier.size}: rows are gone or were added")
        elif edge != self._frontier.encode():
            self.fault("log_head", "", "its edge is not that of the leaves")
        if self._base and not self._has_events:
            self.fault("log_head", "", "it moves the positions of events, and the log has none")


def _hash(tenant: str, leaf: Row[tuple[object, ...]]) -> bytes:
    try:
        return hash_of(tenant, leaf.leaf_index, leaf.kind, leaf.row_key, leaf.chain, leaf.previous, leaf.commitment)
    except (TypeError, AttributeError):
        return FIRST


def row_fault(leaf: Row[Any], salt: bytes | str | None, data: bytes | None, is_erased: bool) -> str:
    """What is wrong between a leaf and its row, whose content is ``data`` (None: there is no such row); "" if nothing."""
    if is_erased:
        return "" if salt is None else "it was erased and its salt is still there"
    if leaf.kind not in _KINDS:
        return "the log knows no such kind of row"
    if data is None:
        return "the row is missing"
    if not isinstance(salt, bytes):
        return "its salt is gone, and no erasure took it"
    if data.endswith(UNREADABLE):
        return "the row holds something that cannot be read"
    if commit(salt, data) != leaf.commitment:
        return _CHANGED.get(leaf.kind, "the row is not what was stored")
    return ""


_CHANGED = {
    "event": "its row, body, spans, decisions, tokens or contents are not what was stored",
    "content": "its text or spans are not what was stored",
    "erasure": "its row, tombstones or what it left are not what was stored",
}
