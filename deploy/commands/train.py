"""``headrace train``: run a trainer on a Headrace that runs without one, or show what the next step would do."""

import json as json_module
import subprocess
import sys
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, paths_of
from deploy.errors import DeployError, NotRunning

DryRun = Annotated[bool, typer.Option("--dry-run", help="Lease nothing, change nothing: print the batch and its first numbers.")]
Forward = Annotated[bool, typer.Option("--forward/--no-forward", help="With --dry-run: run the model once over the batch.")]


def train(data_dir: DataDir, config_dir: ConfigDir, dry_run: DryRun = False, forward: Forward = True, json: Json = False) -> None:
    """Train on what is ready, until stopped; with --dry-run only show what the next step would do.

    `headrace up` runs a trainer of its own unless it was started with --no-train. Settings come from HEADRACE_TRAINER_* and from
    trainer.toml in the config directory; docs/training.md lists them.

    \b
    Examples:
      headrace train --dry-run
      headrace train --dry-run --no-forward --json
    """
    from deploy.launcher.stack import rollback_environment

    paths = paths_of(data_dir, config_dir)
    with admin_client(data_dir, config_dir) as client:
        client.health()
    if not paths.stack_file.exists():
        raise NotRunning(f"Headrace on {paths.data_dir} is still starting; {paths.log_dir} says how far it is.")
    stack = json_module.loads(paths.stack_file.read_text())
    if not dry_run and "trainer" in stack["processes"]:
        raise DeployError("This Headrace trains already; start it with `headrace up --no-train` to run the trainer yourself.")
    command = [sys.executable, "-m", "workers.trainer"]
    if dry_run:
        command += ["--dry-run", *([] if forward else ["--no-forward"]), *(["--json"] if json else [])]
    done = subprocess.run(command, env=rollback_environment(paths, stack), check=False)
    if done.returncode != 0:
        raise DeployError("The trainer ended with an error; it is said above.")
