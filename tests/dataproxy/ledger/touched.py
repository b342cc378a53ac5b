"""What a tampering touched, found by comparing a copy with how it was: the names by which the audit may call it, and no others."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from dataproxy.client.review_types import AuditProblem
from dataproxy.ledger.rows import PLAIN
from dataproxy.ledger.signed import FILE
from tests.dataproxy.ledger.tampering import HANGING, TABLES, Copy, rows_of

Row: TypeAlias = dict[str, Any]
Name: TypeAlias = tuple[str, str, str]
"""Tenant, table (or the file), key."""


@dataclass(slots=True, frozen=True)
class Touched:
    """``names`` are those of what was touched. ``exact``: nothing else is off, so that the audit may name nothing else.

    A leaf that is gone moves all that come after it, and the end of a log takes rows with it that others lean on: there the audit
    names what was touched among what follows from it.
    """

    names: frozenset[Name]
    exact: bool

    def fault(self, problems: list[AuditProblem]) -> str:
        """What is wrong with the audit's answer; "" if nothing."""
        found = {_name(one.tenant, one.table, one.key) for one in problems}
        if not found & self.names:
            return f"none of {sorted(self.names)[:5]} is named by {problems[:5]}"
        if self.exact and found - self.names:
            return f"{sorted(found - self.names)} were not touched"
        return "" if all(one.what for one in problems) else f"no words: {problems}"


class Before:
    """A copy as it was before somebody tampered with it."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._database = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(copy.database)) as raw:
            raw.backup(self._database)
        self._lines = copy.checkpoints.read_text().splitlines()
        self._public = copy.public

    def touched(self) -> Touched:
        """What is another now."""
        if self._copy.public != self._public:
            return Touched(frozenset(_lines(self._lines)), exact=True)
        lines = self._copy.checkpoints.read_text().splitlines()
        if lines != self._lines:
            return Touched(frozenset(_lines(_difference(self._lines, lines))), exact=True)
        with closing(sqlite3.connect(self._copy.database)) as after, closing(self._database) as before:
            tables = [table for table in TABLES if rows_of(before, table) != rows_of(after, table)]
            if "log_leaf" in tables and "log_head" in tables:
                gone = [line for line in lines if json.loads(line)["size"] > _num_leaves(after, json.loads(line)["tenant"])]
                return Touched(frozenset(_lines(gone)), exact=False)
            names = frozenset(name for table in tables for name in _changed(before, after, table))
            return Touched(names, exact="log_leaf" not in tables)


def _changed(before: sqlite3.Connection, after: sqlite3.Connection, table: str) -> Iterator[Name]:
    """Names of the rows of ``table`` that are in only one of both."""
    old, new = rows_of(before, table), rows_of(after, table)
    for row in [*(row for row in old if row not in new), *(row for row in new if row not in old)]:
        yield from _names(before, table, row)
        yield from _names(after, table, row)


def _names(raw: sqlite3.Connection, table: str, row: Row) -> Iterator[Name]:
    """The row's own, and that of the row whose leaf answers for it."""
    tenant = row["tenant"]
    if table == "log_head":
        yield _name(tenant, table, "")
        if row["base_position"]:  # what moves every event of a log is seen in every one of them
            for one in rows_of(raw, "event"):
                yield from _with_erasure(raw, one["tenant"], "event", one["event_id"])
    elif table in ("checkpoint", "log_leaf", "log_salt"):
        yield from _names_in_log(raw, table, row)
    elif table == "tombstone":
        yield _name(tenant, table, row["row_key"])
        yield _name(tenant, "erasure", row["erasure_id"])
        yield _name(tenant, row["kind"], row["row_key"])
        yield from _leaf_at(raw, tenant, row["leaf_index"])
    elif table in ("content", "content_span"):
        yield from _names_of_content(raw, tenant, row["digest"], row.get("owner"))
    elif table == "event" or table in HANGING:
        yield from _names_of_event(raw, tenant, row["event_id"])
    elif table == "erasure":
        yield _name(tenant, table, row["erasure_id"])
    else:
        yield from _with_erasure(raw, tenant, table, "/".join(str(row[column]) for column in PLAIN[table].key))


def _names_in_log(raw: sqlite3.Connection, table: str, row: Row) -> Iterator[Name]:
    tenant = row["tenant"]
    if table == "checkpoint":
        yield _name(tenant, table, row["size"])
        yield _name(tenant, FILE, row["size"])
        return
    yield _name(tenant, table, row["leaf_index"])
    if table == "log_salt":
        yield from _leaf_at(raw, tenant, row["leaf_index"])
    else:
        yield _name(tenant, row["kind"], row["row_key"])


def _names_of_event(raw: sqlite3.Connection, tenant: str, event_id: Any) -> Iterator[Name]:
    yield from _with_erasure(raw, tenant, "event", event_id)
    yield from (_name(tenant, table, event_id) for table in HANGING)


def _names_of_content(raw: sqlite3.Connection, tenant: str, digest: Any, owner: Any) -> Iterator[Name]:
    key = digest.hex() if isinstance(digest, bytes) else str(digest)
    yield _name(tenant, "content", key)
    yield _name(tenant, "content_span", key)
    owners = {one["owner"] for one in rows_of(raw, "content") if (one["tenant"], one["digest"]) == (tenant, digest)}
    for event_id in {*owners, owner} - {"", None}:
        yield from _with_erasure(raw, tenant, "event", event_id)


def _with_erasure(raw: sqlite3.Connection, tenant: str, kind: str, key: Any) -> Iterator[Name]:
    """Of a row that was erased the erasure's leaf says what was left."""
    yield _name(tenant, kind, key)
    for stone in rows_of(raw, "tombstone"):
        if (stone["tenant"], stone["kind"], stone["row_key"]) == (tenant, kind, key):
            yield _name(tenant, "erasure", stone["erasure_id"])


def _leaf_at(raw: sqlite3.Connection, tenant: str, index: Any) -> Iterator[Name]:
    for leaf in rows_of(raw, "log_leaf"):
        if (leaf["tenant"], leaf["leaf_index"]) == (tenant, index):
            yield _name(tenant, leaf["kind"], leaf["row_key"])


def _name(tenant: Any, table: Any, key: Any) -> Name:
    """The leaf of a text that stands alone is named by its digest and an erasure: the digest will do."""
    text = str(key)
    return str(tenant), str(table), text.partition("/")[0] if table == "content" else text


def _lines(lines: list[str]) -> Iterator[Name]:
    """Checkpoints, as the database and the file have them; one that cannot be read hides whose the others are."""
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            yield _name("", FILE, "")
            continue
        yield _name(line["tenant"], FILE, line["size"])
        yield _name(line["tenant"], "checkpoint", line["size"])


def _difference(old: list[str], new: list[str]) -> list[str]:
    return [*(Counter(old) - Counter(new)), *(Counter(new) - Counter(old))]


def _num_leaves(raw: sqlite3.Connection, tenant: str) -> int:
    return int(raw.execute("SELECT count(*) FROM log_leaf WHERE tenant = ?", (tenant,)).fetchone()[0])
