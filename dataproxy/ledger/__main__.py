"""``python -m dataproxy.ledger DATA_DIR --key ledger.pub``: audit a directory that nothing runs on; 0 only if all is well."""

import argparse
import sys
from pathlib import Path

import msgspec

from dataproxy.client.review_types import AuditProgress, AuditReport
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.offline import audit_files
from dataproxy.ledger.witness import WitnessVerifier


def main() -> int:
    """0: everything agrees; 1: something was changed; 2: there is nothing to check."""
    parser = argparse.ArgumentParser(prog="python -m dataproxy.ledger", description="Audit a store that is not in use.")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--key", type=Path, required=True, help="ledger.pub of the configuration directory")
    parser.add_argument("--checkpoints", type=Path, help="the checkpoints file, if it is not in the data directory")
    parser.add_argument("--witness", action="append", default=[], help="a witness's verifier key: it must have cosigned each log")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    arguments = parser.parse_args()
    database = arguments.data_dir / "store" / "headrace.db"
    if not database.exists():
        print(f"there is no store at {database}", file=sys.stderr)
        return 2
    checkpoints = arguments.checkpoints or arguments.data_dir / "ledger" / "checkpoints.jsonl"
    report = AuditReport(False, 0, 0, 0, 0, [], 0)
    try:
        witnesses = [WitnessVerifier(key) for key in arguments.witness]
    except NoteInvalid as error:
        print(error, file=sys.stderr)
        return 2
    for step in audit_files(database, checkpoints, bytes.fromhex(arguments.key.read_text()), witnesses):
        if isinstance(step, AuditProgress):
            print(f"\r{step.done} of {step.total} leaves", end="", file=sys.stderr)
        else:
            report = step
    print(file=sys.stderr)
    print(msgspec.json.encode(report).decode() if arguments.json else _in_words(report))
    return 0 if report.ok else 1


def _in_words(report: AuditReport) -> str:
    counts = f"{report.tenants} tenants, {report.leaves} leaves ({report.erased} erased), {report.checkpoints} checkpoints"
    if report.ok:
        seen = "".join(f"\n  {who} has cosigned {size} leaves" for who, size in report.witnessed.items())
        return f"verified: {counts}{seen}"
    lines = [f"{one.table} {one.key} of tenant {one.tenant or '(operator)'}: {one.what}" for one in report.problems]
    return "\n".join([f"NOT verified: {counts}; {report.num_problems} problems", *lines])


if __name__ == "__main__":
    sys.exit(main())
