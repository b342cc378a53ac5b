"""``headrace status``: what runs, and what is in the store."""

import contextlib
import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, paths_of

if TYPE_CHECKING:
    from rich.table import Table

    from dataproxy.client.types import Status
    from deploy.paths import Paths


def status(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """Show what runs, which weights serve, and what has been recorded, redacted and trained on."""
    import msgspec
    from rich.console import Console

    paths = paths_of(data_dir, config_dir)
    with admin_client(data_dir, config_dir) as client:
        if json:
            print(msgspec.json.encode(client.status()).decode())
            return
        console = Console(highlight=False)
        for line in running_lines(paths):
            console.print(line)
        console.print(_table(client.status()))


def running_lines(paths: "Paths") -> Iterator[str]:
    """What runs, and whether calls are served; said before the store is asked, which may be starting again."""
    from deploy.launcher.readiness import workers_of

    if not paths.stack_file.exists():
        yield f"Headrace is still starting; {paths.log_dir} says how far it is"
        return
    stack = json_module.loads(paths.stack_file.read_text())
    yield f"gateway  {stack['gateway']}/v1   model {stack['model']}"
    for name in stack["processes"]:
        yield f"  {name:<10} {_process(paths.run_dir / f'{name}.pid')}"
    yield from _compute(paths.run_dir / "compute.json")
    workers = workers_of(stack["gateway"])
    if workers is None:
        yield "  the gateway does not answer right now"
    else:
        yield from _not_ready(paths, workers)


def _not_ready(paths: "Paths", workers: dict[str, str]) -> Iterator[str]:
    """A line for each worker that gets no calls, with the reason where it is out of rotation."""
    from deploy.errors import DeployError
    from deploy.fleet import list_workers

    found = {}
    if any(health == "down" for health in workers.values()):
        with contextlib.suppress(DeployError, OSError):  # the health is known even where no reason is to be had
            found = {worker.url: worker for worker in list_workers(paths) if worker.refusal}
    for url, health in workers.items():
        if url in found:
            yield f"  {url} gets no calls: {found[url].refusal} (headrace workers back {found[url].id})"
        elif health != "ready":
            yield f"  {url} is {health}"


def _compute(state_file: Path) -> Iterator[str]:
    """Which way the shared cores stand and why, where a trainer follows the load."""
    try:
        state = json_module.loads(state_file.read_text())
    except FileNotFoundError:
        return
    yield (
        f"  cores      serving {'has' if state['mode'] == 'serves' else 'leaves'} them since {state['since_s']:.0f} s "
        f"({state['reason']}); the trainer {state['trainer']}"
    )
    yield (
        f"             {state['arrivals_per_s']:g} requests/s, {state['in_flight']} in flight, "
        f"{state['backlog']:.1f} batches ready; training had {state['trained_share']:.0%} of the last seconds"
    )


def _process(pid_file: Path) -> str:
    return f"process {pid_file.read_text().strip()}" if pid_file.exists() else "is being started again"


def _table(counts: "Status") -> "Table":
    from rich.table import Table

    table = Table(show_header=False, box=None)
    rows = {
        "serving": counts.serving or "the model as it came",
        "versions": counts.versions,
        "events": counts.events,
        "not yet drained": f"{counts.journal_backlog} bytes",
        "trajectories": counts.trajectories,
        "trainable": counts.trainable,
        "not trainable": _by_name(counts.not_trainable),
        "trained": counts.trained,
        "trajectories by place": _by_name(counts.places),
        "leased now": counts.leases,
        "rewards": f"{counts.rewards} ({counts.pending_rewards} wait for their exchange, {counts.dead_letters} waited in vain)",
        "redacted values": _by_name(counts.redactions),
        "quarantined": _by_name(counts.quarantine),
    }
    if counts.judgements:
        rows["turns before a judge"] = f"{_by_name(counts.judgements)}, for ${counts.judge_usd:.6f}"
    firing = [" ".join((f"{one.name}: {one.detail}", *filter(None, [one.todo]), one.rule)) for one in counts.alarms if one.firing]
    unsure = [one.name for one in counts.alarms if one.value is None]
    quiet = f"none of {len(counts.alarms)} fires" + (f"; too little to judge: {', '.join(unsure)}" if unsure else "")
    rows["alarms"] = "\n".join(firing) or quiet
    if counts.spend:
        by_key = ", ".join(f"{key} ${usd:.6f}" for key, usd in sorted(counts.spend.items()))
        rows["spent on external models"] = f"${sum(counts.spend.values()):.6f} ({by_key})"
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def _by_name(counts: dict[str, int]) -> str:
    """``{"email": 3}`` → ``3 (email 3)``; most first."""
    parts = ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))
    return f"{sum(counts.values())} ({parts})" if parts else "0"
