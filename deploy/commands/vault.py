"""``headrace vault``: raw tokens for the trainer, asked for by one person and approved by another, for a time."""

from typing import TYPE_CHECKING, Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, KeyFile, columns, review_client, when, wide

if TYPE_CHECKING:
    from dataproxy.client.vault_types import VaultApproval

app = typer.Typer(
    help="Keep raw tokens, sealed, so that training is exact where redaction masked much. Two people must want it.",
    no_args_is_help=True,
)
Reason = Annotated[str, typer.Option(help="Why: kept on record.")]
Approval = Annotated[str, typer.Argument(help="Its id, from `headrace vault list`.")]


@app.command()
def request(
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Reason,
    tenant: Annotated[str, typer.Option(help="Whose traffic.")] = "default",
    agent: Annotated[str, typer.Option(help="Of this agent only; all of them without it.")] = "",
    days: Annotated[float, typer.Option(help="How long a trajectory's raw tokens can be read.")] = 7.0,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Ask for it. Nothing is kept until a reviewer or an admin with another key approves.

    \b
    Example:
      headrace vault request --tenant acme --agent billing --days 7 --reason "tickets are half redacted, ticket 4711"
    """
    from dataproxy.client.vault_types import VaultAsk

    with review_client(data_dir, config_dir, key_file=key_file) as client:
        asked = client.ask_approval(VaultAsk(tenant, days, reason, agent))
    _show(asked, json, f"Asked for: {asked.approval_id}. It waits for somebody else: headrace vault approve {asked.approval_id}")


@app.command()
def approve(
    data_dir: DataDir, config_dir: ConfigDir, approval_id: Approval, reason: Reason, key_file: KeyFile = None, json: Json = False
) -> None:
    """Approve what somebody else asked for. Raw tokens of what may train are kept from now on.

    \b
    Example:
      headrace vault approve vault-019a… --reason "agreed with legal, case 7" --key-file reviewer.key
    """
    with review_client(data_dir, config_dir, key_file=key_file) as client:
        decided = client.decide_approval(approval_id, "approve", reason)
    _show(decided, json, f"In force: raw tokens of {_whose(decided)} are kept for {decided.days:g} days a trajectory.")


@app.command()
def deny(
    data_dir: DataDir, config_dir: ConfigDir, approval_id: Approval, reason: Reason, key_file: KeyFile = None, json: Json = False
) -> None:
    """Deny it.

    \b
    Example:
      headrace vault deny vault-019a… --reason "masked training does"
    """
    with review_client(data_dir, config_dir, key_file=key_file) as client:
        decided = client.decide_approval(approval_id, "deny", reason)
    _show(decided, json, f"Denied: {approval_id}.")


@app.command()
def revoke(
    data_dir: DataDir, config_dir: ConfigDir, approval_id: Approval, reason: Reason, key_file: KeyFile = None, json: Json = False
) -> None:
    """End it and destroy the keys at once. What is on legal hold stays, sealed, and is handed to nobody.

    \b
    Example:
      headrace vault revoke vault-019a… --reason "contract over"
    """
    import msgspec

    with review_client(data_dir, config_dir, key_file=key_file) as client:
        done = client.revoke_approval(approval_id, reason)
    if json:
        print(msgspec.json.encode(done).decode())
        return
    held = f"; {done.held} stay under a legal hold" if done.held else ""
    print(f"Revoked: the keys of {done.destroyed} trajectories are destroyed{held}.")


@app.command("list")
def list_(data_dir: DataDir, config_dir: ConfigDir, key_file: KeyFile = None, json: Json = False) -> None:
    """List requests, who asked, who decided, and how many trajectories can be read under each right now.

    \b
    Example:
      headrace vault list
    """
    import msgspec

    with review_client(data_dir, config_dir, key_file=key_file) as client:
        found = client.list_approvals()
    if json:
        print(msgspec.json.encode(found).decode())
        return
    table = columns("request", "of", "days", "state", "asked by", "decided by", "when", "keys", "reason")
    for one in found:
        who = (one.asked_by, one.decided_by or "—", when(one.decided_us or one.created_us))
        table.add_row(one.approval_id, _whose(one), f"{one.days:g}", one.state, *who, str(one.num_keys), one.reason)
    wide().print(table)


def _whose(approval: "VaultApproval") -> str:
    return f"{approval.tenant}/{approval.agent}" if approval.agent else approval.tenant


def _show(approval: "VaultApproval", json: bool, words: str) -> None:
    import msgspec

    print(msgspec.json.encode(approval).decode() if json else words)
