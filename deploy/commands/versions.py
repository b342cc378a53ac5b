"""``headrace versions``: every set of weights, what it descends from, which one serves; keep one, remove others, take one out."""

import json as json_module
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.commands import versions_serve
from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, paths_of, when, wide
from deploy.errors import DeployError

app = typer.Typer(invoke_without_command=True)

_STYLES = {"serving": "bold green", "canary": "bold yellow"}

Version = Annotated[str, typer.Argument(help="A version from `headrace versions`, like v000003.")]


@app.callback()
def versions(context: typer.Context, data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """List the versions of the weights with their state and the rewards earned while each served; let one serve; keep or remove.

    \b
    Examples:
      headrace versions
      headrace versions show v000003
      headrace versions canary v000007 --share 0.1
      headrace versions promote v000007
      headrace versions pin v000003 --reason "the one we ship"
      headrace versions gc --keep 4
      headrace versions export v000003 ./triage-model
    """
    if context.invoked_subcommand is None:
        list_versions(data_dir, config_dir, json)


@app.command("list")
def list_versions(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """List the versions, as `headrace versions` alone does.

    \b
    Example:
      headrace versions list --json
    """
    import msgspec

    with admin_client(data_dir, config_dir) as client:
        rows = client.list_versions()
        rewards = {row.version: row for row in client.reward_stats()}
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    on_disk = {row["version"]: row for row in _on_disk(paths_of(data_dir, config_dir).data_dir, "list")}
    table = columns("version", "parent", "state", "made", "reward", "n", "held out", "disk", "checksum")
    for row in rows:
        earned = rewards.get(row.version)
        mean, num = (f"{earned.mean:.3f}", str(earned.num)) if earned else ("—", "0")
        checksum = (row.checksum or "—")[:12]
        scores = [f"{name.removeprefix('eval_')} {value:.3f}" for name, value in row.metrics.items() if name.startswith("eval_")]
        kept = on_disk.get(row.version)
        disk = "collected" if kept is None else "pinned" if kept["pinned"] is not None else f"{kept['bytes'] / 1e6:.0f} MB"
        made, held_out = when(row.created_us), ", ".join(scores) or "—"
        style = _STYLES.get(row.state)
        table.add_row(row.version, row.parent or "—", row.state, made, mean, num, held_out, disk, checksum, style=style)
    wide().print(table)


@app.command()
def show(version: Version, data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """Show one version: what it descends from, its batch and numbers, what is on the disk, and the workers that hold it now.

    \b
    Examples:
      headrace versions show v000003
      headrace versions show v000003 --json
    """
    import msgspec

    from deploy.fleet import list_workers

    paths = paths_of(data_dir, config_dir)
    with admin_client(data_dir, config_dir) as client:
        found = client.get_version(version)
    kept = next((row for row in _on_disk(paths.data_dir, "list") if row["version"] == version), None)
    holders = [worker.url for worker in list_workers(paths) if worker.version == version]
    if json:
        print(json_module.dumps({**msgspec.to_builtins(found), "disk": kept, "workers": holders}))
        return
    table = columns("", "")
    table.show_header = False
    rows = {
        "version": found.version, "state": found.state, "descends from": found.parent or "nothing: the model as it came",
        "made": when(found.created_us), "directory": found.directory,
        "checksum": found.checksum or "—", "batch": found.batch_id or "—",
        "held by": ", ".join(holders) or "no worker", "disk": _kept(kept),
    }  # fmt: skip
    for name, value in {**rows, **{name: f"{number:.6g}" for name, number in sorted(found.metrics.items())}}.items():
        table.add_row(name, value)
    wide().print(table)


def _kept(row: dict[str, Any] | None) -> str:
    if row is None:
        return "collected"
    return f"{row['bytes'] / 1e6:.1f} MB" + (f", pinned: {row['pinned'] or 'no reason given'}" if row["pinned"] is not None else "")


app.command("canary")(versions_serve.canary)
app.command("promote")(versions_serve.promote)
app.command("rollback")(versions_serve.rollback)


@app.command()
def pin(
    version: Version,
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Annotated[str, typer.Option(help="Why it is kept; shown to whoever looks later.")] = "",
) -> None:
    """Keep a version's files for as long as it is pinned, so that it can always be rolled back to.

    \b
    Example:
      headrace versions pin v000003 --reason "the one we ship"
    """
    _on_disk(paths_of(data_dir, config_dir).data_dir, "pin", version, "--reason", reason)
    print(f"{version} is pinned.")


@app.command()
def unpin(version: Version, data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Let a version's files be collected again.

    \b
    Example:
      headrace versions unpin v000003
    """
    _on_disk(paths_of(data_dir, config_dir).data_dir, "unpin", version)
    print(f"{version} is not pinned.")


@app.command()
def gc(
    data_dir: DataDir,
    config_dir: ConfigDir,
    keep: Annotated[int, typer.Option(min=1, help="Versions kept, of the newest and of the line of the one that serves.")] = 8,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only named.")] = False,
) -> None:
    """Show which versions' files may go, and remove them with --yes. Needs a running Headrace, which knows what serves.

    The model as it came, what serves, a canary and what is pinned stay. A version whose files are gone stays on record, and cannot
    be rolled back to. Keep more than the trainer's max_staleness (2 unless set), or fresh samples count as sampled elsewhere.

    \b
    Examples:
      headrace versions gc --keep 4
      headrace versions gc --keep 4 --yes
    """
    with admin_client(data_dir, config_dir) as client:
        serving = client.serving_version().version
        canaries = [row.version for row in client.list_versions() if row.state == "canary"]
    also = [argument for name in canaries for argument in ("--also", name)]
    wanted = ["gc", "--serving", serving, *also, "--keep", str(keep), *(["--remove"] if yes else [])]
    found = _on_disk(paths_of(data_dir, config_dir).data_dir, *wanted)
    if not found["versions"]:
        print("Nothing may go.")
        return
    print(f"{'Removed' if yes else 'Would remove'} {', '.join(found['versions'])} ({found['bytes'] / 1e6:.1f} MB).")
    if not yes:
        print("Add --yes to remove them.")


@app.command()
def export(
    version: Version,
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
) -> None:
    """Copy a version to a plain Hugging Face folder, every tensor verified; transformers loads it without Headrace.

    \b
    Example:
      headrace versions export v000003 ./triage-model
    """
    target = target.expanduser().absolute()
    _on_disk(paths_of(data_dir, config_dir).data_dir, "export", version, str(target))
    print(f"{target} holds {version}.")


def _on_disk(data_dir: Path, *arguments: str) -> Any:
    """What the trainer's own command says of the versions on this disk.

    Raises:
        DeployError: it refused; its sentence is the message.
    """
    command = [sys.executable, "-m", "workers.trainer.versions", "--data-dir", str(data_dir), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeployError(done.stderr.strip()[-2000:])
    return json_module.loads(done.stdout)
