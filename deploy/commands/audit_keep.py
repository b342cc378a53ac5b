"""``headrace audit erase``, ``hold`` and ``retention``: what is kept, and what is not."""

from typing import TYPE_CHECKING, Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, columns, review_client, when, wide

if TYPE_CHECKING:
    from dataproxy.client.review_types import Erasure

hold = typer.Typer(help="Legal holds: what is on hold is neither erased nor expires, and does not train.", no_args_is_help=True)
retention = typer.Typer(help="How long what was recorded is kept.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Whose.")]
Subject = Annotated[str | None, typer.Option(help="A person: the `user` that the agent sent, or its pseudonym.")]
Session = Annotated[str | None, typer.Option(help="A session, by its id or the name its agent gave it.")]
Trajectory = Annotated[str | None, typer.Option(help="A trajectory.")]


def erase(
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Annotated[str, typer.Option(help="Why: kept on record.")],
    tenant: Tenant = "default",
    subject: Subject = None,
    session: Session = None,
    trajectory: Trajectory = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be erased, and erase nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    json: Json = False,
) -> None:
    """Erase what a person, a session or a trajectory left: texts, tokens, free text of rewards. It cannot be undone.

    The log goes on to verify and shows a tombstone in each place. The answer names the policy versions that learned from it.

    \b
    Examples:
      headrace audit erase --tenant acme --subject ann@example.org --reason "request of 3 May" --dry-run
      headrace audit erase --tenant acme --session ticket-17 --reason "request of 3 May" --yes
    """
    import msgspec

    from dataproxy.client.review_types import ErasureRequest

    scope, target = _one_of(subject=subject, session=session, trajectory=trajectory)
    with review_client(data_dir, config_dir) as client:
        foreseen = client.erase(ErasureRequest(tenant, scope, target, reason, dry_run=True))
        done = foreseen
        if not dry_run:
            if not yes:
                print(_in_words(foreseen))
                typer.confirm("Erase it for good?", abort=True)
            done = client.erase(ErasureRequest(tenant, scope, target, reason))
    print(msgspec.json.encode(done).decode() if json else _in_words(done))


@hold.command("add")
def add(
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Annotated[str, typer.Option(help="Why: kept on record.")],
    tenant: Tenant = "default",
    agent: Annotated[str | None, typer.Option(help="An agent.")] = None,
    subject: Subject = None,
    session: Session = None,
    trajectory: Trajectory = None,
) -> None:
    """Put a hold on a tenant or, narrower, on an agent, person, session or trajectory of it.

    \b
    Example:
      headrace audit hold add --tenant acme --session ticket-17 --reason "case 7"
    """
    from dataproxy.client.review_types import LegalHold

    given = {"agent": agent, "subject": subject, "session": session, "trajectory": trajectory}
    scope, target = _one_of(**given) if any(given.values()) else ("tenant", "")
    with review_client(data_dir, config_dir) as client:
        made = client.add_hold(LegalHold(tenant, scope, target, reason))
    print(f"{made.hold_id}: {scope} {made.target or tenant} is on hold until `headrace audit hold release {made.hold_id}`.")


@hold.command("list")
def list_holds(
    data_dir: DataDir,
    config_dir: ConfigDir,
    released: Annotated[bool, typer.Option("--all", help="Those that ended too.")] = False,
    json: Json = False,
) -> None:
    """List the holds that are in force."""
    import msgspec

    with review_client(data_dir, config_dir) as client:
        rows = client.list_holds(released)
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = columns("hold", "tenant", "scope", "what", "since", "released", "reason")
    for row in rows:
        table.add_row(row.hold_id, row.tenant, row.scope, row.target, when(row.created_us), when(row.released_us), row.reason)
    wide().print(table)


@hold.command("release")
def release(
    hold_id: Annotated[str, typer.Argument(help="From `headrace audit hold list`.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Annotated[str, typer.Option(help="Why: kept on record.")],
) -> None:
    """End a hold. That it was there stays on record."""
    with review_client(data_dir, config_dir) as client:
        ended = client.release_hold(hold_id, reason)
    print(f"{hold_id}: {ended.scope} {ended.target or ended.tenant} may be erased, expire and train again.")


@retention.command("set")
def set_retention(
    data_dir: DataDir,
    config_dir: ConfigDir,
    name: Annotated[str, typer.Argument(help="The class's name, such as `support-90`.")],
    reason: Annotated[str, typer.Option(help="Why: kept on record.")],
    days: Annotated[float | None, typer.Option(min=0, help="Days after a trajectory's last event. None given: for ever.")] = None,
    tenant: Tenant = "default",
    agent: Annotated[str, typer.Option(help="One agent of the tenant only; the narrower word holds.")] = "",
) -> None:
    """Say how long trajectories are kept. What is older is erased, with the same tombstones and proof as any erasure.

    \b
    Example:
      headrace audit retention set support-90 --tenant acme --agent billing --days 90 --reason "contract 2026-11"
    """
    from dataproxy.client.review_types import Retention

    with review_client(data_dir, config_dir) as client:
        client.set_retention(Retention(tenant, name, days, reason, agent))
    whose = f"agent {agent} of tenant {tenant}" if agent else f"tenant {tenant}"
    print(f"{whose}: class {name}, {f'{days:g} days' if days is not None else 'for ever'}.")


@retention.command("list")
def list_retention(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """List every word on record, oldest first; the latest of the narrowest scope holds."""
    import msgspec

    with review_client(data_dir, config_dir) as client:
        rows = client.list_retention()
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = columns("class", "tenant", "agent", "days", "since", "reason")
    for row in rows:
        days = "for ever" if row.days is None else f"{row.days:g}"
        table.add_row(row.name, row.tenant, row.agent or "all", days, when(row.created_us), row.reason)
    wide().print(table)


def _one_of(**given: str | None) -> tuple[str, str]:
    named = [(scope, name) for scope, name in given.items() if name]
    if len(named) != 1:
        raise typer.BadParameter(f"say exactly one of {', '.join(f'--{scope}' for scope in given)}")
    return named[0]


def _in_words(done: "Erasure") -> str:
    verb = "Would be erased" if done.dry_run else "Erased"
    lines = [
        f"{verb}: {done.scope} {done.target} of tenant {done.tenant}",
        f"  {len(done.trajectories)} trajectories, {done.events} events, {done.token_segments} token segments",
        f"  {done.contents_erased} texts; {done.contents_kept} more stay, for other trajectories say them too",
        f"  free text of {done.rewards_blanked} rewards; their values stay",
        f"  learned from it before: {', '.join(done.trained_versions) or 'no policy version'}",
    ]
    if done.leased:
        lines.append(f"  in a trainer's hands right now: {', '.join(done.leased)}")
    if not done.dry_run:
        kept = "old pages go once nobody reads them any more (on PostgreSQL: docs/operations.md)"
        gone = "its tables' files hold nothing of it any more" if done.purged else kept
        lines.append(f"  on record as {done.erasure_id}; {gone}")
    return "\n".join(lines)
