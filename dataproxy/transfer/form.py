"""The form of a tenant's file, and how a row stands in it. Pure.

A tar of ``tables/<table>/<number>.jsonl``, one row a line, at most ROWS a file, tables in the order in which they refer to each
other; beside those of ``token_segment`` a ``.bin`` with the arrays that the rows point into; last ``manifest.json``, which names
every file with its size and SHA-256, and ``manifest.sig``, its Ed25519 signature by the ledger's key of the store it comes from.

Bytes are base64, but for texts and arrays: those stand as they are before compression, so that the file can be read without us.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import LargeBinary, Table

from dataproxy.errors import Refused
from dataproxy.store.compression import compress, compress_array, decompress
from dataproxy.store.schema import LOCAL, content, event, metadata, token_segment

FORMAT, VERSION = "headrace-tenant", 1
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
ROWS = 2000
_TEXTS = {content.name: "data", event.name: "body"}
_ARRAYS = dict.fromkeys(("prompt_ids", "output_ids", "versions"), "<i4") | {"logprobs": "<f4"}
_ARRAYS |= dict.fromkeys(("prompt_altered", "output_altered"), "|u1")

TABLES: tuple[Table, ...] = tuple(table for table in metadata.sorted_tables if "tenant" in table.c and table.name not in LOCAL)
"""What belongs to a tenant and means something elsewhere; those that others refer to come first."""


class Part(msgspec.Struct, frozen=True):
    """One file of the tar; ``num_rows`` is 0 for arrays."""

    name: str
    size: int
    sha256: str
    num_rows: int


class Manifest(msgspec.Struct, frozen=True):
    """What is in the file. ``schema`` is the revision of the tables, ``signer`` the public key (hex) of ``manifest.sig``."""

    format: str
    version: int
    tenant: str
    schema: str
    exported_us: int
    signer: str
    parts: list[Part]


def part_name(table: Table, number: int, suffix: str = "jsonl") -> str:
    """The name of the ``number``-th file of ``table``."""
    return f"tables/{table.name}/{number:06d}.{suffix}"


def encode_row(table: Table, row: Mapping[str, Any], arrays: bytearray) -> bytes:
    """``row`` as a line; its arrays go to the end of ``arrays``."""
    values: dict[str, Any] = {}
    for column in table.c:
        value = row[column.name]
        if isinstance(value, bytes):
            value = _encode_bytes(table, column.name, value, arrays)
        values[column.name] = value
    return msgspec.json.encode(values) + b"\n"


def _encode_bytes(table: Table, column: str, value: bytes, arrays: bytearray) -> Any:
    if _TEXTS.get(table.name) == column:
        return decompress(value).decode()
    if table is token_segment and column in _ARRAYS:
        plain = decompress(value)
        place = {"offset": len(arrays), "size": len(plain), "dtype": _ARRAYS[column]}
        arrays += plain
        return place
    return base64.b64encode(value).decode()


def decode_row(table: Table, line: bytes, arrays: bytes) -> dict[str, Any]:
    """The row that was encoded as ``line``.

    Raises:
        Refused: it is no row of this table.
    """
    try:
        values = msgspec.json.decode(line, type=dict[str, Any])
        if values.keys() != set(table.c.keys()):
            raise Refused(f"a row of {table.name} has other columns than this store's; use the same version of Headrace")
        return {column.name: _decode(table, column.name, column.type, values[column.name], arrays) for column in table.c}
    except (msgspec.DecodeError, binascii.Error, TypeError, KeyError, ValueError) as error:
        raise Refused(f"a row of {table.name} cannot be read; the file is damaged") from error


def _decode(table: Table, column: str, type_: Any, value: Any, arrays: bytes) -> Any:
    if value is None or not isinstance(type_, LargeBinary):
        return value
    if _TEXTS.get(table.name) == column:
        return compress(value.encode())
    if table is token_segment and column in _ARRAYS:
        plain = arrays[value["offset"] : value["offset"] + value["size"]]
        if len(plain) != value["size"]:
            raise ValueError("an array ends outside its file")
        return compress_array(plain)
    return base64.b64decode(value, validate=True)
