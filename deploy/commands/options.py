"""Options that several commands share, and the client they talk to the data proxy with."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dataproxy.client import ReviewClient, RewardClient, SyncDataProxyClient
from deploy.errors import NotRunning
from deploy.launcher.lock import is_running
from deploy.paths import Paths, default_config_dir, default_data_dir

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPED_WIDTH = 240

DataDir = Annotated[
    Path, typer.Option(help="Where everything is kept.", default_factory=default_data_dir, show_default="~/.local/share/headrace")
]
ConfigDir = Annotated[
    Path, typer.Option(help="Where the keys lie.", default_factory=default_config_dir, show_default="~/.config/headrace")
]
Purpose = Annotated[str, typer.Option(help="Why you read: put on record, redacted, with the read.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(help="Act with the key in this file, not the operator's.", exists=True),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def paths_of(data_dir: Path, config_dir: Path) -> Paths:
    """Both directories, absolute, ``~`` resolved."""
    return Paths(data_dir.expanduser().absolute(), config_dir.expanduser().absolute())


def admin_client(data_dir: Path, config_dir: Path, purpose: str = "") -> SyncDataProxyClient:
    """A client with the operator's key; ``purpose`` goes on record with whatever is read. Close it.

    Raises:
        NotRunning: nothing holds the data directory, or there is no key file.
    """
    return SyncDataProxyClient(*_socket_and_key(data_dir, config_dir), purpose=purpose)


def review_client(data_dir: Path, config_dir: Path, purpose: str = "", key_file: Path | None = None) -> ReviewClient:
    """The same for a reviewer's questions; ``purpose`` goes on record with whatever is read. ``key_file``: whose else.

    Raises:
        NotRunning: nothing holds the data directory, or there is no key file.
    """
    socket, key = _socket_and_key(data_dir, config_dir)
    key = key_file.read_text().strip() if key_file is not None else key
    return ReviewClient(socket, key, purpose=purpose, timeout_s=120.0)


def reward_client(data_dir: Path, config_dir: Path) -> RewardClient:
    """The same for whoever tunes rewards.

    Raises:
        NotRunning: nothing holds the data directory, or there is no key file.
    """
    return RewardClient(*_socket_and_key(data_dir, config_dir))


def _socket_and_key(data_dir: Path, config_dir: Path) -> tuple[Path, str]:
    paths = paths_of(data_dir, config_dir)
    key_file = paths.config_dir / "admin.key"
    if not is_running(paths.run_dir) or not key_file.exists():
        raise NotRunning(
            f"No Headrace runs on {paths.data_dir}. Start it with `headrace up`, or point --data-dir and --config-dir at it."
        )
    return paths.socket, key_file.read_text().strip()


def columns(ids: str, *others: str) -> "Table":
    """A table without lines whose first column, the ids that people copy, is never cut."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(ids, no_wrap=True, overflow="ignore")
    for name in others:
        table.add_column(name, overflow="fold")
    return table


def wide() -> "Console":
    """A console that gives tables the room they need where nobody looks at the width: in a pipe or a file."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPED_WIDTH)


def when(time_us: int | None) -> str:
    """UTC µs as local time to the second; ``—`` for None."""
    return "—" if time_us is None else datetime.fromtimestamp(time_us / 1e6).strftime("%Y-%m-%d %H:%M:%S")
