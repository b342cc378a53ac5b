"""Any text into PostgreSQL's columns and back as it was. They cannot hold NUL, which SQLite and JSON allow and agents may send.

A mark and ``0`` stand for it in the table, two marks for the mark itself, a noncharacter, which no text has use for. It is the same
in every place, in look-ups too: what is written is found again, and proofs hold, for they are of the text that was given.
"""

import re
from typing import Any

import psycopg
from psycopg.types.string import StrDumperUnknown, TextLoader

_MARK = "\U0010fffe"
_MARKED = re.compile(f"{_MARK}([0{_MARK}])")


def write_any_text(connection: psycopg.Connection) -> None:
    """Let ``connection`` write and read text of every kind."""
    connection.adapters.register_dumper(str, _TextDumper)
    for type_name in ("text", "varchar"):
        connection.adapters.register_loader(type_name, _TextLoader)


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> "bytes | bytearray | memoryview":
        """``obj`` as the table holds it."""
        if "\0" in obj or _MARK in obj:
            obj = obj.replace(_MARK, _MARK * 2).replace("\0", f"{_MARK}0")
        return super().dump(obj) or b""


class _TextLoader(TextLoader):
    def load(self, data: Any) -> bytes | str:
        """What was given to be written."""
        text = super().load(data)
        if isinstance(text, str) and _MARK in text:
            return _MARKED.sub(lambda found: "\0" if found[1] == "0" else _MARK, text)
        return text
