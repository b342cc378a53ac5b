"""Cutting checkpoints: the root of each grown log signed, stored beside it, and appended to a file outside the database.

The file is what a store that was put back to an earlier state cannot agree with. It is written after the transaction commits, and
what a crash kept from it is added at the next start; so every line of it stands in the database too.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
from sqlalchemy import Connection, func, select

from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.merkle import Frontier
from dataproxy.ledger.notes import NoteSigner
from dataproxy.ledger.tiles import Tiles
from dataproxy.store.database import Database
from dataproxy.store.dialect import insert_all
from dataproxy.store.schema import checkpoint, log_head


class Line(msgspec.Struct, frozen=True):
    """A line of the file."""

    tenant: str
    size: int
    cut_us: int
    note: str


class Checkpoints:
    """Cuts and keeps checkpoints; ``file`` is only appended to. ``lock`` is held from a transaction to its lines in the file."""

    def __init__(self, database: Database, signer: NoteSigner, file: Path, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us
        self.signer = signer
        self.file = file
        self.lock = threading.Lock()
        self.tiles = Tiles(file.parent / "tiles")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.lock:
            self._add_missing()

    def cut(self, every_leaves: int = 1, every_us: int = 0) -> int:
        """Cut one for each log that has grown by ``every_leaves`` or whose last is older than ``every_us``; gives their number."""
        with self.lock:
            now_us = self._now_us()
            with self._database.write() as connection:
                lines = [
                    Line(tenant, frontier.size, now_us, self.signer.sign(tenant, frontier.size, frontier.root()))
                    for tenant, frontier, size, cut_us in _grown(connection)
                    if frontier.size - size >= every_leaves or now_us - cut_us >= every_us
                ]
                insert_all(connection, checkpoint, [msgspec.structs.asdict(line) for line in lines])
            self._append(lines)
        if lines:
            with self._database.read() as connection:
                for line in lines:  # now, so that no proof has to read a whole log later
                    self.tiles.roots(connection, line.tenant, line.size)
        return len(lines)

    def take_in(self) -> None:
        """A log came from another store: its checkpoints of ours go into the file, and a new one is cut."""
        with self.lock:
            self._add_missing()
        self.cut()

    def read_file(self) -> list[Line]:
        """The file's lines, in order.

        Raises:
            NoteInvalid: a line is damaged; the message names it.
        """
        return read_lines(self.file)

    def _add_missing(self) -> None:
        """What a crash between the transaction and the file left out; a file that cannot be read is left for the audit to name."""
        _cut_torn_line(self.file)
        try:
            last: dict[str, int] = {line.tenant: line.size for line in self.read_file()}
        except NoteInvalid:
            return
        with self._database.read() as connection:
            rows = connection.execute(select(checkpoint).order_by(checkpoint.c.tenant, checkpoint.c.size)).all()
        self._append([Line(row.tenant, row.size, row.cut_us, row.note) for row in rows if row.size > last.get(row.tenant, -1)])

    def _append(self, lines: list[Line]) -> None:
        if not lines:
            return
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_lines(file: Path) -> list[Line]:
    """The lines of a checkpoint file; none where there is no file.

    Raises:
        NoteInvalid: a line is damaged; the message names it.
    """
    lines = []
    for number, text in enumerate(file.read_bytes().splitlines() if file.exists() else [], 1):
        try:
            lines.append(msgspec.json.decode(text, type=Line))
        except msgspec.DecodeError as error:
            raise NoteInvalid(f"line {number} of {file.name} cannot be read") from error
    return lines


def _cut_torn_line(file: Path) -> None:
    """A line whose end a power loss took is written again."""
    data = file.read_bytes() if file.exists() else b""
    if not data.endswith(b"\n") and data:
        os.truncate(file, data.rfind(b"\n") + 1)


def _grown(connection: Connection) -> list[tuple[str, Frontier, int, int]]:
    """(tenant, frontier, size and time of the last checkpoint) of every log that has grown since."""
    last = select(checkpoint.c.tenant, func.max(checkpoint.c.size).label("size"), func.max(checkpoint.c.cut_us).label("cut_us"))
    cut = last.group_by(checkpoint.c.tenant).subquery()
    size, cut_us = func.coalesce(cut.c.size, 0).label("cut_size"), func.coalesce(cut.c.cut_us, 0).label("cut_us")
    joined = log_head.outerjoin(cut, cut.c.tenant == log_head.c.tenant)
    query = select(log_head.c.tenant, log_head.c.size, log_head.c.frontier, size, cut_us).select_from(joined)
    rows = connection.execute(query.where(log_head.c.size > size).order_by(log_head.c.tenant))
    return [(row.tenant, Frontier.decode(row.size, row.frontier), row.cut_size, row.cut_us) for row in rows]
