"""``headrace workers``: the engines behind the gateway, what each holds, which are out of rotation; take one out, or back."""

from typing import TYPE_CHECKING, Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, paths_of, wide

if TYPE_CHECKING:
    from deploy.paths import Paths

app = typer.Typer(invoke_without_command=True)

WorkerId = Annotated[str, typer.Argument(help="A worker's id or URL from `headrace workers`.")]


@app.callback()
def workers(context: typer.Context, data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """List the workers with the version that each holds, its lane and its health; take one out of rotation, or back.

    \b
    Examples:
      headrace workers
      headrace workers out a1b2c3d4e5f6 --reason "new memory on Friday"
      headrace workers back a1b2c3d4e5f6
    """
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from deploy.fleet import list_workers

    found = list_workers(_running(data_dir, config_dir))
    if json:
        print(msgspec.json.encode(found).decode())
        return
    table = columns("id", "url", "kind", "lane", "version", "health", "running", "why not")
    for one in found:
        load = str(one.in_flight + one.elsewhere)
        table.add_row(one.id, one.url, one.kind, one.lane, one.version or "—", one.health, load, one.refusal or "—")
    wide().print(table)


@app.command()
def out(
    worker: WorkerId,
    data_dir: DataDir,
    config_dir: ConfigDir,
    reason: Annotated[str, typer.Option(help="Why; shown by `headrace status` for as long as it is out.")] = "taken out by hand",
) -> None:
    """Give a worker no more calls; those that it runs go on. It stays out until it is taken back.

    \b
    Example:
      headrace workers out a1b2c3d4e5f6 --reason "new memory on Friday"
    """
    from deploy.fleet import find_worker, take_out

    paths = _running(data_dir, config_dir)
    found = find_worker(paths, worker)
    take_out(paths, found, reason)
    print(f"{found.url} gets no more calls.")


@app.command()
def back(worker: WorkerId, data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Take a worker back into rotation. One with an older version is brought up first; one with wrong weights needs a restart.

    \b
    Example:
      headrace workers back a1b2c3d4e5f6
    """
    from deploy.fleet import find_worker, take_back

    paths = _running(data_dir, config_dir)
    found = find_worker(paths, worker)
    take_back(paths, found)
    print(f"{found.url} is taken back.")


def _running(data_dir: DataDir, config_dir: ConfigDir) -> "Paths":
    with admin_client(data_dir, config_dir):  # says so where nothing runs
        return paths_of(data_dir, config_dir)
