"""``headrace export``: what was recorded, redacted, in a format that others read. The export is itself put on record."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client
from deploy.errors import DeployError

T = TypeVar("T")


class Format(StrEnum):
    """Formats of files."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    ATIF = "atif"
    CHAT = "chat"
    OTLP = "otlp"


class NotATime(DeployError):
    """A time that cannot be read."""


def export(
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write. For atif also a directory/: one file a trajectory.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
    format: Annotated[
        Format, typer.Option("--format", "-f", help="jsonl and parquet: events. atif, chat: trajectories. otlp: spans.")
    ],
    agent: Annotated[str | None, typer.Option(help="Of this agent only.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session only.")] = None,
    kind: Annotated[str | None, typer.Option(help="Events of this kind only: model_call, tool_call, …")] = None,
    since: Annotated[str | None, typer.Option(help="Begun at or after this time, UTC: 2026-01-31 or 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, typer.Option(help="Begun before this time.")] = None,
    tokens: Annotated[bool, typer.Option(help="With the engine's exact token ids and logprobs (masked).")] = True,
    json: Json = False,
) -> None:
    """Write what was recorded to a file: ATDP events (jsonl, parquet), ATIF trajectories, chat messages, or OTLP spans.

    Only one page or trajectory is in memory at a time; a file appears when it is whole. The read goes on record first.

    \b
    Examples:
      headrace export --format jsonl --out events.jsonl --kind tool_call
      headrace export --format chat --out chat.jsonl --agent desk --since 2026-01-01
      headrace export --format atif --out trajectories/ --no-tokens
    """
    import msgspec

    from dataproxy.client import ExportQuery
    from deploy.exports.write import OF_EVENTS, OF_TRAJECTORIES

    query = ExportQuery(agent, session, kind, _time_us(since), _time_us(until), tokens)
    path = Path(out).expanduser()
    if out.endswith("/"):
        path.mkdir(parents=True, exist_ok=True)
    with admin_client(data_dir, config_dir) as client:
        if format.value in OF_EVENTS:
            with client.export_events(query) as events, _progress(events.num, events.items, quiet=json) as items:
                num = OF_EVENTS[format.value](path, items)
        else:
            with client.export_trajectories(query) as found, _progress(found.num, found.items, quiet=json) as trajectories:
                num = OF_TRAJECTORIES[format.value](path, trajectories)
    if json:
        print(msgspec.json.encode({"out": str(path), "format": format.value, "num": num}).decode())
    else:
        print(f"{num} {'rows' if num != 1 else 'row'} in {path}")


@contextmanager
def _progress(num: int, items: Iterable[T], quiet: bool) -> Iterator[Iterable[T]]:
    """``items``, and a bar on standard error that moves with them."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        yield progress.track(items, total=num, description="export")


def _time_us(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise NotATime(f"{text!r} is no time; write it as 2026-01-31 or 2026-01-31T12:00") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
