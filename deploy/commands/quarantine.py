"""``headrace quarantine``: exchanges that could not be redacted for certain, sealed; try them again after the cause is mended."""

from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, Purpose, admin_client, columns, when, wide

app = typer.Typer(help="See what could not be governed, and try it again. No text of it is ever shown.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Only rows with this reason, for example redaction_unlocated.")]


@app.command("list")
def list_(
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, newest first.")] = 100,
    json: Json = False,
) -> None:
    """List what lies there, why, and what of it was stored since. Nothing is opened.

    \b
    Example:
      headrace quarantine list --reason redaction_unlocated
    """
    import msgspec

    with admin_client(data_dir, config_dir) as client:
        rows = client.list_quarantine(reason, limit)
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = columns("event", "tenant", "reason", "when", "bytes", "stored since")
    for row in rows:
        table.add_row(
            row.event_id, row.tenant, row.reason, when(row.created_us), str(row.size_bytes), "yes" if row.stored else "no"
        )
    wide().print(table)


@app.command()
def show(
    data_dir: DataDir,
    config_dir: ConfigDir,
    event_id: Annotated[str, typer.Argument(help="The event.")],
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """Open one row: whose call it was, of what size, and whether it could be governed now. The opening is put on record.

    \b
    Example:
      headrace quarantine show 019aa… --purpose "ticket 4711"
    """
    import msgspec

    with admin_client(data_dir, config_dir, purpose) as client:
        opened = client.open_quarantine(event_id)
    if json:
        print(msgspec.json.encode(opened).decode())
        return
    for field in opened.__struct_fields__:
        print(f"{field}: {getattr(opened, field)}")


@app.command()
def retry(
    data_dir: DataDir,
    config_dir: ConfigDir,
    event_ids: Annotated[list[str] | None, typer.Argument(help="Which; without any, the newest 500 that are not stored.")] = None,
    reason: Reason = "",
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """Govern rows again, by the rules and tokenizer of now, and store those that can be. The opening is put on record.

    \b
    Example:
      headrace quarantine retry --reason redaction_timeout --purpose "limit raised"
    """
    import msgspec

    from dataproxy.client.types import QuarantineRetry

    with admin_client(data_dir, config_dir, purpose) as client:
        done = client.retry_quarantine(QuarantineRetry(event_ids or [], reason))
    if json:
        print(msgspec.json.encode(done).decode())
        return
    print(f"{len(done.stored)} stored, {len(done.failed)} failed again.")
    for event_id, why in sorted(done.failed.items()):
        print(f"  {event_id}: {why}")
