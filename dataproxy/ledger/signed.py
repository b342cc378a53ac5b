"""Checkpoints against the tree they were cut from: in the database, in the file outside it, and the two against each other."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dataproxy.client.review_types import AuditProblem
from dataproxy.ledger.checkpoints import Line
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.notes import NoteVerifier

FILE = "checkpoints file"


def check_checkpoints(
    tenant: str,
    stored: Sequence[Line],
    filed: Sequence[Line],
    verifier: NoteVerifier,
    roots: Mapping[int, bytes],
    size: int,
) -> Iterator[AuditProblem]:
    """What is wrong with the checkpoints of a log of ``size`` leaves; ``roots`` holds its root at every size they name."""
    for place, lines in (("checkpoint", stored), (FILE, filed)):
        for line in lines:
            if what := _fault(line, verifier, roots, size):
                yield AuditProblem(tenant, place, str(line.size), what)
        for earlier, later in pairwise(lines):
            if later.size <= earlier.size:
                yield AuditProblem(tenant, place, str(later.size), f"it stands after the checkpoint of {earlier.size} leaves")
    in_database, in_file = set(stored), set(filed)
    for line in stored:
        if line not in in_file:
            yield AuditProblem(tenant, FILE, str(line.size), "the database has this checkpoint and the file has not, or another")
    for line in filed:
        if line not in in_database:
            yield AuditProblem(
                tenant, "checkpoint", str(line.size), "the file has this checkpoint and the database has not, or another"
            )


def _fault(line: Line, verifier: NoteVerifier, roots: Mapping[int, bytes], size: int) -> str:
    try:
        signed = verifier.open(line.note)
    except NoteInvalid as error:
        return str(error)
    if signed.origin != verifier.origin(line.tenant) or signed.size != line.size:
        return f"what was signed is {signed.origin} with {signed.size} leaves"
    if signed.size > size:
        return f"it was signed with {signed.size} leaves and the log has {size}: its end is gone"
    if roots.get(signed.size) != signed.root:
        return f"the first {signed.size} leaves are not those that were signed"
    return ""
