"""``headrace keys``: make, list and revoke API keys."""

import time
from typing import Annotated, Literal

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, when

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

_DAY_US = 86_400_000_000


@app.command()
def create(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Annotated[str, typer.Option(help="Whose key it is.")] = "default",
    agent: Annotated[str, typer.Option(help="The agent that will use it; consent and rewards are kept per agent.")] = "default",
    role: Annotated[Literal["agent", "reviewer", "trainer", "admin"], typer.Option(help="What it may do.")] = "agent",
    model: Annotated[list[str] | None, typer.Option(help="A model it may use; again for more. None given: all.")] = None,
    expires_days: Annotated[float | None, typer.Option(min=0, help="Days until it stops working.")] = None,
    json: Json = False,
) -> None:
    """Make a key and print it, this once: only its hash is kept.

    \b
    Examples:
      headrace keys create --tenant acme --agent triage
      headrace keys create --role reviewer --expires-days 30
    """
    import msgspec

    from dataproxy.client.types import NewKey

    expires_us = None if expires_days is None else time.time_ns() // 1000 + int(expires_days * _DAY_US)
    with admin_client(data_dir, config_dir) as client:
        issued = client.create_key(NewKey(tenant, agent, role, model or [], expires_us))
    if json:
        print(msgspec.json.encode(issued).decode())
    else:
        print(f"{issued.key}\nShown this once; it works within two seconds. Its id, for `headrace keys revoke`: {issued.key_id}")


@app.command("list")
def list_(data_dir: DataDir, config_dir: ConfigDir) -> None:
    """List all keys: who holds them and whether they still work."""
    from rich.console import Console

    with admin_client(data_dir, config_dir) as client:
        rows = client.list_keys()
    table = columns("key id", "tenant", "agent", "role", "models", "made", "expires", "revoked")
    for row in rows:
        models = ", ".join(row.models) or "all"
        table.add_row(
            row.key_id, row.tenant, row.agent, row.role, models, when(row.created_us), when(row.expires_us), when(row.revoked_us)
        )
    Console().print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="From `headrace keys list`.")], data_dir: DataDir, config_dir: ConfigDir
) -> None:
    """Revoke a key, for good. The gateway refuses it within seconds."""
    with admin_client(data_dir, config_dir) as client:
        client.revoke_key(key_id)
    print(f"{key_id} is revoked.")
