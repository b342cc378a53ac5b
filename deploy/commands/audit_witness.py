"""``headrace audit witness``: an outside party that states what it saw of a log, so that nobody can be shown another one.

``keygen`` and ``cosign`` are the witness's, on a machine of its own, and need no Headrace running.
"""

import json as json_module
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, KeyFile, review_client
from deploy.errors import DeployError

app = typer.Typer(help="Have somebody outside cosign the log's checkpoints (C2SP tlog-cosignature).", no_args_is_help=True)


@app.command()
def keygen(
    name: Annotated[str, typer.Argument(help="The witness's name: a URL without its scheme.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The private key's file.")] = Path("witness.key"),
) -> None:
    """Make a witness's keys. The private one never leaves the witness; the public one is for whoever verifies.

    \b
    Example:
      headrace audit witness keygen witness.example.com/w1 -o witness.key
    """
    from dataproxy.ledger.errors import NoteInvalid
    from dataproxy.ledger.witness import WitnessSigner

    try:
        secret, signer = WitnessSigner.generate(name)
        _write_new(out, secret + "\n")
    except (NoteInvalid, FileExistsError) as error:
        raise DeployError(f"{error}") from error
    out.with_suffix(".pub").write_text(signer.verifier.key_line + "\n")
    print(signer.verifier.key_line)


@app.command()
def ask(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Annotated[str, typer.Option(help="Whose log.")] = "default",
    old: Annotated[int, typer.Option(min=0, help="Leaves that the witness has seen; it says how many.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file; standard output without it.")] = None,
    key_file: KeyFile = None,
) -> None:
    """Write what a witness needs: the last checkpoint, and the proof that it grew out of what the witness has seen.

    It is the body of a C2SP witness's `add-checkpoint`, so it can be sent to one that is a service as well.

    \b
    Example:
      headrace audit witness ask --tenant acme --old 120 -o ask.txt
    """
    with review_client(data_dir, config_dir, key_file=key_file) as client:
        text = client.witness_request(tenant, old)
    if out is None:
        print(text, end="")
    else:
        out.write_text(text)


@app.command()
def cosign(
    request: Annotated[Path, typer.Argument(help="What `ask` wrote.", exists=True)],
    key: Annotated[Path, typer.Option(help="The witness's private key.", exists=True)],
    log: Annotated[Path, typer.Option(help="ledger.pub of the log, given to the witness by another way.", exists=True)],
    seen: Annotated[Path, typer.Option(help="The witness's own file of what it saw; made at the first time.")] = Path("seen.json"),
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file; standard output without it.")] = None,
) -> None:
    """Check that the log only grew since the last time, note that, and cosign. For the witness; nothing needs to run.

    \b
    Example:
      headrace audit witness cosign ask.txt --key witness.key --log ledger.pub --seen seen.json -o cosignature.txt
    """
    from dataproxy.ledger.errors import NoteInvalid
    from dataproxy.ledger.notes import NoteVerifier
    from dataproxy.ledger.witness import Seen, WitnessSigner, body_of, check_request, read_request

    known = _read_seen(seen)
    try:
        asked = read_request(request.read_text())
        origin = asked.note.partition("\n")[0]
        last = known.get(origin)
        before = Seen(last["size"], bytes.fromhex(last["root"])) if last else None
        signer, verifier = WitnessSigner(key.read_text()), NoteVerifier(bytes.fromhex(log.read_text().strip()))
        checkpoint = check_request(asked, verifier, before)
    except (NoteInvalid, ValueError) as error:
        raise DeployError(f"not cosigned: {error}") from error
    known[origin] = {"size": checkpoint.size, "root": checkpoint.root.hex()}
    _replace(seen, json_module.dumps(known, indent=1) + "\n")  # before the signature is given: it must not be forgotten
    line = signer.cosign(body_of(asked.note), int(time.time()))
    if out is None:
        print(line)
    else:
        out.write_text(line + "\n")


@app.command()
def add(
    cosignature: Annotated[Path, typer.Argument(help="What the witness answered.", exists=True)],
    data_dir: DataDir,
    config_dir: ConfigDir,
    witness: Annotated[str, typer.Option(help="The witness's verifier key: name+id+key.")],
    tenant: Annotated[str, typer.Option(help="Whose log.")] = "default",
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Keep a cosignature, checked. It goes into evidence, and `audit verify --witness` demands it.

    \b
    Example:
      headrace audit witness add cosignature.txt --tenant acme --witness "$(cat witness.pub)"
    """
    import msgspec

    from dataproxy.client.review_types import CosignatureAdded

    with review_client(data_dir, config_dir, key_file=key_file) as client:
        for line in cosignature.read_text().splitlines():
            kept = client.add_cosignature(CosignatureAdded(tenant, witness, line))
            words = f"{kept.witness} has cosigned the checkpoint of {kept.size:,} leaves of {tenant}."
            print(msgspec.json.encode(kept).decode() if json else words)


def _read_seen(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json_module.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise DeployError(f"{path} cannot be read; a witness that has forgotten what it saw must not sign") from error
    return found


def _write_new(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _replace(path: Path, text: str) -> None:
    """Whole and on the disk, or not at all."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    _write_new(temporary, text)
    with temporary.open() as file:
        os.fsync(file.fileno())
    temporary.rename(path)
