"""``headrace recording``: what becomes of calls that cannot be recorded, because the journal's disk is full or failing."""

from typing import Annotated, Literal

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, when, wide

app = typer.Typer(help="Say what becomes of a tenant's calls while they cannot be recorded.", no_args_is_help=True)


@app.command("set")
def set_(
    data_dir: DataDir,
    config_dir: ConfigDir,
    choice: Annotated[
        Literal["strict", "serve_unrecorded"],
        typer.Argument(help="strict: refuse them with 503 and Retry-After. serve_unrecorded: serve them, and record the gap."),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant.")] = "default",
    reason: Annotated[str, typer.Option(help="Why: kept on record.")] = "set with `headrace recording set`",
    json: Json = False,
) -> None:
    """Choose between the record and the service, for when both cannot be had. strict holds until this is said.

    \b
    Examples:
      headrace recording set serve_unrecorded --tenant acme --reason "support desk, contract 2026-11"
      headrace recording set strict --tenant acme
    """
    import msgspec

    from dataproxy.client.types import RecordingPolicy

    with admin_client(data_dir, config_dir) as client:
        policy = client.set_recording(RecordingPolicy(tenant, choice == "serve_unrecorded", reason))
    if json:
        print(msgspec.json.encode(policy).decode())
    else:
        done = "served, and the gap becomes an event" if policy.unrecorded else "refused with 503 and Retry-After"
        print(f"On record for tenant {tenant}: calls that cannot be recorded are {done}.")


@app.command()
def show(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """Show every choice on record, oldest first; the latest of a tenant holds."""
    import msgspec

    with admin_client(data_dir, config_dir) as client:
        policies = client.list_recording()
    if json:
        print(msgspec.json.encode(policies).decode())
        return
    table = columns("tenant", "choice", "when", "reason")
    for policy in policies:
        choice = "serve_unrecorded" if policy.unrecorded else "strict"
        table.add_row(policy.tenant, choice, when(policy.created_us), policy.reason)
    wide().print(table)
