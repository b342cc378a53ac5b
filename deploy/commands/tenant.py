"""``headrace tenant``: carry a tenant to another store, on the other database too, as one file."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client
from deploy.errors import DeployError

app = typer.Typer(help="Carry a tenant to another store as one file.", no_args_is_help=True)
_KEY = re.compile(r"[0-9a-fA-F]{64}")


class NotAKey(DeployError):
    """A public key that cannot be one."""


@app.command("export")
def export(
    tenant: Annotated[str, typer.Argument(help="The tenant's name.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; it appears when it is whole.")],
    json: Json = False,
) -> None:
    """Write all that is stored of a tenant, redacted, to one signed file. The export goes on record first.

    Events, contents, tokens, rewards, consents, keys' hashes, the ledger. What lies in the quarantine stays sealed in it.

    \b
    Example:
      headrace tenant export acme --out acme.tar
    """
    import msgspec

    from deploy.exports.files import whole_file
    from deploy.exports.tar_rows import RowCounter

    counter = RowCounter()
    with (
        admin_client(data_dir, config_dir) as client,
        client.export_tenant(tenant) as (num_rows, pieces),
        whole_file(out) as partial,
        partial.open("wb") as file,
        _bar("export", num_rows, json) as advance,
    ):
        for piece in pieces:
            file.write(piece)
            counter.feed(piece)
            advance(counter.num_rows)
    size = out.stat().st_size
    if json:
        print(msgspec.json.encode({"tenant": tenant, "out": str(out), "rows": counter.num_rows, "size_bytes": size}).decode())
    else:
        print(f"{counter.num_rows} rows of tenant {tenant} in {out} ({size / 1e6:.1f} MB)")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `headrace tenant export` wrote.", exists=True, dir_okay=False)],
    data_dir: DataDir,
    config_dir: ConfigDir,
    signed_by: Annotated[
        str, typer.Option(help="ledger.pub of the store that it comes from, 64 hex digits, if that is not this one.")
    ] = "",
    json: Json = False,
) -> None:
    """Store a tenant's file: all of it or nothing. A file that was changed, and a tenant that is here already, are refused.

    \b
    Examples:
      headrace tenant import acme.tar
      headrace tenant import acme.tar --signed-by $(cat old/ledger.pub)
    """
    import msgspec

    if signed_by and not _KEY.fullmatch(signed_by):
        raise NotAKey("--signed-by takes the 64 hex digits of a ledger.pub")
    with admin_client(data_dir, config_dir) as client, _bar("import", file.stat().st_size, json) as advance:
        imported = client.import_tenant(file, signed_by, on_sent=advance)
    if json:
        print(msgspec.json.encode(imported).decode())
    else:
        print(f"{imported.num_rows} rows of tenant {imported.tenant} stored, as {imported.signer[:16]}… signed them")


@contextmanager
def _bar(what: str, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, and how to say how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=min(done, total))
