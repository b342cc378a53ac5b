"""``headrace consent``: what may be recorded, and what may be trained on."""

from pathlib import Path
from typing import Annotated

import typer

from dataproxy.client.types import Consent
from deploy.commands.options import ConfigDir, DataDir, admin_client, columns, when, wide

app = typer.Typer(
    help="Say what may be recorded and trained on, for a tenant, one of its agents, or one session.", no_args_is_help=True
)

Tenant = Annotated[str, typer.Argument(help="The tenant.")]
Agent = Annotated[str, typer.Option(help="One agent of the tenant only; the narrower word holds.")]
Session = Annotated[str, typer.Option(help="One session only, by its id or the name its agent gave it; training alone.")]
New = Annotated[bool, typer.Option("--new", help="Of a tenant or agent that has neither a key nor a recorded call yet.")]
Reason = Annotated[str, typer.Option(help="Why: kept on record.")]


@app.command()
def grant(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Tenant = "default",
    agent: Agent = "",
    session: Session = "",
    training: Annotated[bool, typer.Option("--training", help="Training too, not recording alone.")] = False,
    new: New = False,
    reason: Reason = "granted with `headrace consent grant`",
) -> None:
    """Allow recording, and training with --training.

    \b
    Examples:
      headrace consent grant acme --training --reason "contract 2026-11"
      headrace consent grant acme --agent billing          (recording alone, for this agent)
      headrace consent grant acme --session ticket-17 --training
    """
    _put(data_dir, config_dir, Consent(tenant, True, training, reason, agent, session_id=session), new)


@app.command()
def revoke(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Tenant = "default",
    agent: Agent = "",
    session: Session = "",
    recording: Annotated[bool, typer.Option("--recording", help="Recording too, not training alone.")] = False,
    reason: Reason = "revoked with `headrace consent revoke`",
) -> None:
    """Stop training on a tenant's, agent's or session's exchanges, and recording them with --recording."""
    _put(data_dir, config_dir, Consent(tenant, not recording, False, reason, agent, session_id=session), False)


@app.command()
def show(data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Show every consent on record, oldest first; the latest of the narrowest scope holds."""
    with admin_client(data_dir, config_dir) as client:
        rows = client.list_consent()
    table = columns("tenant", "agent", "session", "recording", "training", "when", "reason")
    for row in rows:
        whose = (row.tenant, row.agent or "all", row.session_id or "all")
        table.add_row(*whose, _word(row.recording), _word(row.training), when(row.created_us), row.reason)
    wide().print(table)


def _put(data_dir: Path, config_dir: Path, consent: Consent, new: bool) -> None:
    with admin_client(data_dir, config_dir) as client:
        held = client.set_consent(consent, must_exist=not new)
    scope = f"agent {held.agent} of tenant {held.tenant}" if held.agent else f"tenant {held.tenant}"
    scope = f"session {held.session_id} of {scope}" if held.session_id else scope
    print(f"On record for {scope}: recording {_word(held.recording)}, training {_word(held.training)}.")


def _word(on: bool) -> str:
    return "on" if on else "off"
