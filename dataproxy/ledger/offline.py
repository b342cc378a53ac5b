"""The audit of a data directory that nothing runs on: a copy, a backup, or one that was taken away to be looked at."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import create_engine

from dataproxy.client.review_types import AuditProblem, AuditProgress, AuditReport
from dataproxy.ledger.checkpoints import read_lines
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.signed import FILE
from dataproxy.ledger.verify import verify
from dataproxy.ledger.witness import WitnessVerifier


def audit_files(
    database: Path, checkpoints: Path, public: bytes, witnesses: Sequence[WitnessVerifier] = ()
) -> Iterator[AuditProgress | AuditReport]:
    """Check the SQLite file ``database``, opened for reading alone, and the ``checkpoints`` file with the ``public`` key.

    Each of ``witnesses`` must have cosigned each log.
    """
    engine = create_engine(f"sqlite:///file:{database}?mode=ro&uri=true", hide_parameters=True)
    try:
        lines = read_lines(checkpoints)
    except NoteInvalid as error:
        yield AuditReport(False, 0, 0, 0, 0, [AuditProblem("", FILE, "", str(error))], 1)
        return
    try:
        with engine.connect() as connection:
            yield from verify(connection, None, NoteVerifier(public), lines, witnesses)
    finally:
        engine.dispose()
