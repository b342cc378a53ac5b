"""Writes a tenant's file as a stream of bytes, from one snapshot of the store. Memory holds one part at a time."""

import hashlib
import tarfile
from collections.abc import Iterator

import msgspec
from alembic.runtime.migration import MigrationContext
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, Table, func, select

from dataproxy.store.database import Database
from dataproxy.store.schema import token_segment
from dataproxy.store.scope import Scope
from dataproxy.transfer.form import FORMAT, MANIFEST, ROWS, SIGNATURE, TABLES, VERSION, Manifest, Part, encode_row, part_name

_BLOCK = tarfile.BLOCKSIZE


def count_rows(connection: Connection, tenant: str) -> int:
    """Rows that an export of ``tenant`` has."""
    counts = (select(func.count()).select_from(table).where(table.c.tenant == tenant) for table in TABLES)
    return sum(int(connection.execute(query).scalar_one()) for query in counts)


def write_tenant(database: Database, scope: Scope, tenant: str, signing_key: bytes, now_us: int) -> Iterator[bytes]:
    """The file of ``tenant``. ``signing_key`` is the ledger's private key, 32 bytes."""
    key = Ed25519PrivateKey.from_private_bytes(signing_key)
    parts: list[Part] = []
    with database.read(scope) as connection:
        schema = MigrationContext.configure(connection).get_current_revision() or ""
        for table in TABLES:
            for name, data, num_rows in _parts(connection, table, tenant):
                parts.append(Part(name, len(data), hashlib.sha256(data).hexdigest(), num_rows))
                yield from member(name, data)
    signer = key.public_key().public_bytes_raw().hex()
    manifest = msgspec.json.format(msgspec.json.encode(Manifest(FORMAT, VERSION, tenant, schema, now_us, signer, parts)), indent=1)
    yield from member(MANIFEST, manifest)
    yield from member(SIGNATURE, key.sign(manifest).hex().encode())
    yield bytes(2 * _BLOCK)


def member(name: str, data: bytes) -> Iterator[bytes]:
    """One file of a tar; equal data makes equal bytes."""
    head = tarfile.TarInfo(name)
    head.size, head.mode = len(data), 0o600
    yield head.tobuf(tarfile.USTAR_FORMAT)
    yield data
    yield bytes(-len(data) % _BLOCK)


def _parts(connection: Connection, table: Table, tenant: str) -> Iterator[tuple[str, bytes, int]]:
    """(name, data, rows) of ``table``, by key."""
    query = select(table).where(table.c.tenant == tenant).order_by(*table.primary_key)
    rows = connection.execution_options(yield_per=ROWS).execute(query).mappings()
    for number, chunk in enumerate(rows.partitions(ROWS)):
        arrays = bytearray()
        lines = b"".join(encode_row(table, dict(row), arrays) for row in chunk)
        yield part_name(table, number), lines, len(chunk)
        if table is token_segment:
            yield part_name(table, number, "bin"), bytes(arrays), 0
