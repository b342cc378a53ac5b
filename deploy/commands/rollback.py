"""``headrace rollback``: put an earlier set of weights back while traffic runs."""

import json
import subprocess
import sys
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, admin_client, paths_of
from deploy.errors import DeployError, NotRunning


def rollback(
    version: Annotated[str, typer.Argument(help="A version from `headrace versions`, like v000003.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
) -> None:
    """Serve an earlier version again, without stopping anything.

    Requests in flight go on; the engine's checksum is compared with that version's before it serves; the trainer goes on from
    it. Nothing is deleted: a rollback can be rolled back.

    \b
    Example:
      headrace rollback v000003
    """
    from deploy.launcher.stack import rollback_environment

    paths = paths_of(data_dir, config_dir)
    with admin_client(data_dir, config_dir) as client:
        client.get_version(version)  # an unknown one is a sentence, not a traceback from further down
    if not paths.stack_file.exists():
        raise NotRunning(f"No engine runs on {paths.data_dir}: start it with `headrace up`, then roll back.")
    stack = json.loads(paths.stack_file.read_text())
    command = [sys.executable, "-m", "workers.trainer.publish", "--version", version, "--rollback"]
    done = subprocess.run(command, env=rollback_environment(paths, stack), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeployError(f"{version} was not put back; what served goes on serving.\n{done.stderr.strip()[-2000:]}")
    with admin_client(data_dir, config_dir) as client:
        serving = client.serving_version()
    print(f"{serving.version} serves (checksum {serving.checksum}).")
