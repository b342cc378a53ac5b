"""Reads a tenant's file: everything is checked before anything is stored, and all of it is stored in one transaction, or none."""

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from alembic.runtime.migration import MigrationContext
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import IntegrityError

from dataproxy.errors import Refused
from dataproxy.store.dialect import insert_all
from dataproxy.store.events import next_position
from dataproxy.store.schema import checkpoint, cosignature, event, log_head, token_segment
from dataproxy.transfer.form import FORMAT, MANIFEST, SIGNATURE, TABLES, VERSION, Manifest, decode_row, part_name


class TenantFile:
    """An open file whose every byte is what its signer signed. Close it."""

    def __init__(self, path: Path, trusted: frozenset[str]) -> None:
        """Check ``path``; ``trusted`` are public keys (hex) whose signature will do.

        Raises:
            Refused: it is no such file, was changed, or is signed by somebody else.
        """
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115  closed by ``close``
        except tarfile.TarError as error:
            raise Refused("the file is no export of a tenant") from error
        try:
            self.manifest = self._checked(trusted)
            self._names = {part.name: part for part in self.manifest.parts}
        except BaseException:
            self._tar.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._tar.close()

    def rows(self, table: Table) -> Iterator[list[dict[str, Any]]]:
        """The rows of ``table``, a part at a time."""
        number = 0
        while (name := part_name(table, number)) in self._names:
            arrays = self._data(part_name(table, number, "bin")) if table is token_segment else b""
            rows = [decode_row(table, line, arrays) for line in self._data(name).splitlines()]
            if any(row["tenant"] != self.manifest.tenant for row in rows):
                raise Refused(f"{name} has rows of another tenant")
            yield rows
            number += 1

    def _checked(self, trusted: frozenset[str]) -> Manifest:
        raw = self._data(MANIFEST)
        try:
            manifest = msgspec.json.decode(raw, type=Manifest)
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.signer))
            key.verify(bytes.fromhex(self._data(SIGNATURE).decode()), raw)
        except (msgspec.DecodeError, InvalidSignature, ValueError) as error:
            raise Refused("the manifest is not what was signed; the file was changed") from error
        if (manifest.format, manifest.version) != (FORMAT, VERSION):
            raise Refused(f"the file is {manifest.format} {manifest.version}; this Headrace reads {FORMAT} {VERSION}")
        if manifest.signer not in trusted:
            raise Refused(
                f"the file is signed by {manifest.signer}, which this store does not know; compare it with ledger.pub of the "
                "store it comes from, and if it is the same give it as `signed_by` (`--signed-by`)"
            )
        names = [part.name for part in manifest.parts]
        known = {f"tables/{table.name}/" for table in TABLES}
        if len(set(names)) != len(names) or {*names, MANIFEST, SIGNATURE} != set(self._tar.getnames()):
            raise Refused("the file does not hold what its manifest names; it was changed")
        if any(name.rpartition("/")[0] + "/" not in known for name in names):
            raise Refused("the file holds a table that this Headrace does not know; use a newer one")
        for part in manifest.parts:
            data = self._data(part.name)
            if (len(data), hashlib.sha256(data).hexdigest()) != (part.size, part.sha256):
                raise Refused(f"{part.name} is not what the manifest says; the file was changed")
        return manifest

    def _data(self, name: str) -> bytes:
        try:
            found = self._tar.extractfile(name)
        except (KeyError, tarfile.TarError) as error:
            raise Refused(f"{name} is missing; the file is no whole export of a tenant") from error
        if found is None:
            raise Refused(f"{name} is no plain file")
        with found:
            return found.read()


def store_tenant(connection: Connection, file: TenantFile, own_key: str) -> int:
    """Store everything in ``file``; gives the number of rows. Events keep their order, behind all that the store has already.

    Checkpoints come along only if this store's own key (hex) signed them; the log of another store gets its next from us.

    Raises:
        Refused: the tenant is here already, the tables are of another revision, or a part of it cannot be.
    """
    tenant, schema = file.manifest.tenant, MigrationContext.configure(connection).get_current_revision()
    if file.manifest.schema != schema:
        raise Refused(f"the file is of revision {file.manifest.schema} of the tables, this store is at {schema}; bring both to one")
    foreign = () if file.manifest.signer == own_key else (checkpoint, cosignature)
    tables = [table for table in TABLES if table not in foreign]
    for table in TABLES:
        if connection.execute(select(table.c.tenant).where(table.c.tenant == tenant).limit(1)).first() is not None:
            raise Refused(f"tenant {tenant} is in this store already ({table.name}); nothing was imported")
    shift = next_position(connection) - _first_position(file)
    num_rows = 0
    try:
        for table in tables:
            for rows in file.rows(table):
                insert_all(connection, table, [_moved(table, row, shift) for row in rows])
                num_rows += len(rows)
    except IntegrityError as error:
        raise Refused("a row of the file is here already, or refers to one that is missing; nothing was imported") from error
    return num_rows


def _first_position(file: TenantFile) -> int:
    return min((row["position"] for rows in file.rows(event) for row in rows), default=1)


def _moved(table: Table, row: dict[str, Any], shift: int) -> dict[str, Any]:
    """Positions are the store's own; the log counts its tenant's from ``base_position``."""
    column = {event.name: "position", log_head.name: "base_position"}.get(table.name)
    return row if column is None else row | {column: row[column] + shift}
