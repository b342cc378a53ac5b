"""``headrace versions canary | promote | rollback``: which version serves, and a new one for a share of the sessions first."""

import json
import subprocess
import sys
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, admin_client, paths_of
from deploy.errors import DeployError, NotRunning

Version = Annotated[str, typer.Argument(help="A version from `headrace versions`, like v000003.")]


def canary(
    version: Version,
    data_dir: DataDir,
    config_dir: ConfigDir,
    share: Annotated[float, typer.Option(min=0.001, max=1.0, help="The share of the sessions that it serves.")] = 0.1,
) -> None:
    """Let a version serve a share of the sessions, on workers of its own, beside the one that serves.

    A session stays where its hash puts it; a larger share keeps the sessions of a smaller one. Every event says its lane, and
    `headrace versions` the reward that each version earned. Sessions that both served are not trained on. The canary ends
    with `headrace versions promote` or `headrace rollback`. It needs two workers: `headrace up --workers 2`.

    \b
    Examples:
      headrace versions canary v000007 --share 0.1
      headrace versions promote v000007
    """
    _publish(version, data_dir, config_dir, "--canary", str(share))
    print(f"{version} is a canary: {share:.1%} of the sessions.")


def promote(version: Version, data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Let a version serve everybody, a canary's or any other that is still on the disk. A canary ends with it.

    \b
    Example:
      headrace versions promote v000007
    """
    _publish(version, data_dir, config_dir)
    _say(data_dir, config_dir)


def rollback(version: Version, data_dir: DataDir, config_dir: ConfigDir) -> None:
    """Serve an earlier version again, without stopping anything. A canary ends with it.

    Requests in flight go on; each engine's checksum is compared with that version's before it serves; the trainer goes on from
    it. Nothing is deleted: a rollback can be rolled back.

    \b
    Example:
      headrace rollback v000003
    """
    _publish(version, data_dir, config_dir)
    _say(data_dir, config_dir)


def _publish(version: str, data_dir: DataDir, config_dir: ConfigDir, *more: str) -> None:
    """Run the publisher's own command.

    Raises:
        DeployError: it refused, or the engines did, and what served goes on serving; or it was killed.
    """
    from deploy.launcher.stack import rollback_environment

    paths = paths_of(data_dir, config_dir)
    with admin_client(data_dir, config_dir) as client:
        client.get_version(version)  # an unknown one is a sentence, not a traceback from further down
    if not paths.stack_file.exists():
        raise NotRunning(f"No engine runs on {paths.data_dir}: start it with `headrace up`, and try again.")
    stack = json.loads(paths.stack_file.read_text())
    command = [sys.executable, "-m", "workers.trainer.publish", "--version", version, *more]
    done = subprocess.run(command, env=rollback_environment(paths, stack), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeployError(why_not(done.returncode, done.stderr))


def why_not(status: int, said: str) -> str:
    """What the publisher's exit status means for what serves; ``said`` are its last words. Negative: a signal ended it."""
    if status < 0:
        found = f"The publisher was killed half-way (signal {-status}): the keeper brings every worker to what is on record."
        return f"{found} `headrace status` says what serves; then try again."
    return f"Nothing was changed; what served goes on serving.\n{said.strip()[-2000:]}"


def _say(data_dir: DataDir, config_dir: ConfigDir) -> None:
    with admin_client(data_dir, config_dir) as client:
        serving = client.serving_version()
    print(f"{serving.version} serves (checksum {serving.checksum}).")
