"""``headrace audit verify`` and ``export``: proof for oneself, and proof to hand on."""

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, Purpose, paths_of, review_client

if TYPE_CHECKING:
    from dataproxy.client.review_types import AuditReport


def verify(
    data_dir: DataDir,
    config_dir: ConfigDir,
    purpose: Purpose = "",
    offline: Annotated[bool, typer.Option("--offline", help="Check the files of a data directory that nothing runs on.")] = False,
    checkpoints: Annotated[Path | None, typer.Option(help="With --offline: the checkpoints file, if it is kept elsewhere.")] = None,
    witness: Annotated[list[str] | None, typer.Option(help="A witness's verifier key: it must have cosigned each log.")] = None,
    json: Json = False,
) -> None:
    """Check that nothing recorded was changed, deleted, inserted or reordered since, and name what was.

    Every row is checked against its leaf, every leaf against its chain and tree, the tree against the signed checkpoints,
    and those against the file outside the database. Exit status 0: all agree; 1: they don't.

    \b
    Examples:
      headrace audit verify
      headrace audit verify --offline --data-dir /mnt/copy/headrace
      headrace audit verify --witness "$(cat witness.pub)"
    """
    import msgspec
    from rich.console import Console

    from dataproxy.client.review_types import AuditProgress

    if offline:
        raise typer.Exit(_offline(data_dir, config_dir, checkpoints, witness or [], json))
    report: AuditReport | None = None
    with review_client(data_dir, config_dir, purpose) as client, Console(stderr=True).status("reading the logs") as status:
        for step in client.audit(witness or []):
            if isinstance(step, AuditProgress):
                status.update(f"{step.done:,} of {step.total:,} leaves")
            else:
                report = step
    assert report is not None  # the client raises where there is none
    print(msgspec.json.encode(report).decode() if json else _in_words(report))
    raise typer.Exit(0 if report.ok else 1)


def export(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Annotated[str, typer.Option(help="Whose.")] = "default",
    subject: Annotated[str | None, typer.Option(help="The person's: the `user` that the agent sent, or its pseudonym.")] = None,
    session: Annotated[str | None, typer.Option(help="This session's only.")] = None,
    trajectory: Annotated[str | None, typer.Option(help="This trajectory's only.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file; else one named by what it holds.")] = None,
    purpose: Purpose = "",
) -> None:
    """Write evidence: rows, proofs, signed checkpoints, who read, the public key, and a program that checks it all without us.

    That of a part holds the tenant's whole access log too: lists, searches and exports may have shown it without naming it.

    \b
    Examples:
      headrace audit export --tenant acme --session ticket-17 -o evidence.zip --purpose "request of 3 May"
      unzip evidence.zip -d evidence && python evidence/verify.py
    """
    from dataproxy.file_names import evidence_parts, file_name

    given = {"subject": subject, "session": session, "trajectory": trajectory}
    named = {kind: name for kind, name in given.items() if name is not None}
    parts = evidence_parts(tenant, named)
    file = output or Path(file_name(*parts, ending="zip", at_us=time.time_ns() // 1000, to_the_second=True))
    with review_client(data_dir, config_dir, purpose) as client:
        client.save_evidence(file, tenant=tenant, **named)
    print(f"{file}: {file.stat().st_size:,} bytes. Check it with: unzip {file} -d evidence && python evidence/verify.py")


def _offline(data_dir: Path, config_dir: Path, checkpoints: Path | None, witnesses: list[str], json: bool) -> int:
    paths = paths_of(data_dir, config_dir)
    command = [sys.executable, "-m", "dataproxy.ledger", str(paths.data_dir), "--key", str(paths.config_dir / "ledger.pub")]
    command += ["--checkpoints", str(checkpoints)] if checkpoints else []
    command += [part for key in witnesses for part in ("--witness", key)]
    return subprocess.run([*command, *(["--json"] if json else [])], check=False).returncode


def _in_words(report: "AuditReport") -> str:
    counts = f"{report.tenants} logs, {report.leaves:,} leaves ({report.erased:,} erased), {report.checkpoints:,} checkpoints"
    if report.ok:
        seen = "".join(f"\n  {who} has cosigned {size:,} leaves" for who, size in report.witnessed.items())
        return f"Verified: {counts}. Nothing was changed.{seen}"
    first, *others = [f"{p.table} {p.key} of {p.tenant or 'the operator'}: {p.what}" for p in report.problems]
    more = f"  and {report.num_problems - len(report.problems):,} more" if report.num_problems > len(report.problems) else ""
    lines = [
        f"NOT verified: {counts}; {report.num_problems:,} problems. The first:",
        f"  {first}",
        *(f"  {o}" for o in others),
        more,
    ]
    return "\n".join(line for line in lines if line)
