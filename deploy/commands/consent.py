"""``headrace consent``: what may be recorded, and what may be trained on."""

from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, admin_client, columns, when, wide

app = typer.Typer(help="Say what may be recorded and trained on, for a tenant or one of its agents.", no_args_is_help=True)

Tenant = Annotated[str, typer.Argument(help="The tenant.")]
Agent = Annotated[str, typer.Option(help="One agent of the tenant only; the narrower word holds.")]
Reason = Annotated[str, typer.Option(help="Why: kept on record.")]


@app.command()
def grant(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Tenant = "default",
    agent: Agent = "",
    training: Annotated[bool, typer.Option("--training", help="Training too, not recording alone.")] = False,
    reason: Reason = "granted with `headrace consent grant`",
) -> None:
    """Allow recording, and training with --training.

    \b
    Examples:
      headrace consent grant acme --training --reason "contract 2026-11"
      headrace consent grant acme --agent billing          (recording alone, for this agent)
    """
    _put(data_dir, config_dir, tenant, agent, True, training, reason)


@app.command()
def revoke(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Tenant = "default",
    agent: Agent = "",
    recording: Annotated[bool, typer.Option("--recording", help="Recording too, not training alone.")] = False,
    reason: Reason = "revoked with `headrace consent revoke`",
) -> None:
    """Stop training on a tenant's or agent's exchanges, and recording them with --recording."""
    _put(data_dir, config_dir, tenant, agent, not recording, False, reason)


@app.command()
def show(data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Show every consent on record, oldest first; the latest of the narrowest scope holds."""
    with admin_client(data_dir, config_dir) as client:
        rows = client.list_consent()
    table = columns("tenant", "agent", "recording", "training", "when", "reason")
    for row in rows:
        table.add_row(row.tenant, row.agent or "all", _word(row.recording), _word(row.training), when(row.created_us), row.reason)
    wide().print(table)


def _put(data_dir: DataDir, config_dir: ConfigDir, tenant: str, agent: str, recording: bool, training: bool, reason: str) -> None:
    from dataproxy.client.types import Consent

    with admin_client(data_dir, config_dir) as client:
        client.set_consent(Consent(tenant=tenant, agent=agent, recording=recording, training=training, reason=reason))
    scope = f"agent {agent} of tenant {tenant}" if agent else f"tenant {tenant}"
    print(f"On record for {scope}: recording {_word(recording)}, training {_word(training)}.")


def _word(on: bool) -> str:
    return "on" if on else "off"
