"""``headrace audit``: read what was recorded, redacted. Every read is itself put on record before it is answered."""

import json as json_module
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.commands import audit_keep, audit_proof, audit_read, audit_witness
from deploy.commands.options import ConfigDir, DataDir, Json, Purpose, paths_of, review_client, when, wide

if TYPE_CHECKING:
    from rich.console import Console

    from atdp.events import Event

app = typer.Typer(
    help="Read what was recorded, prove that it was not changed, erase it. Every read is itself put on record.",
    no_args_is_help=True,
)
app.command("verify")(audit_proof.verify)
app.command("export")(audit_proof.export)
app.command("log")(audit_read.log)
app.command("search")(audit_read.search)
app.command("erase")(audit_keep.erase)
app.add_typer(audit_keep.hold, name="hold")
app.add_typer(audit_keep.retention, name="retention")
app.add_typer(audit_witness.app, name="witness")


@app.command("list")
def list_(
    data_dir: DataDir,
    config_dir: ConfigDir,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    session: Annotated[str | None, typer.Option(help="Of this session only.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind only: model_call, reward, access, decision, …")] = None,
    after: Annotated[int | None, typer.Option(help="Go on from here: the number printed under the last page.")] = None,
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """List events in the order they were stored.

    \b
    Examples:
      headrace audit list --kind model_call
      headrace audit list --kind access        (who read what)
    """
    import msgspec

    from deploy.commands.event_view import event_table

    with review_client(data_dir, config_dir, purpose) as client:
        page = client.list_events(limit=limit, after=after, session=session, kind=kind)
    if json:
        print(msgspec.json.encode(page).decode())
        return
    console = wide()
    console.print(event_table(page.events))
    if page.next_after is not None:
        console.print(f"More: headrace audit list --after {page.next_after}", highlight=False)


@app.command()
def show(
    event_id: Annotated[str, typer.Argument(help="An event's id from `headrace audit list`, or an answer's own id.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """Show one event: its text with what was redacted marked, and its decisions."""
    import msgspec
    from rich.console import Console

    with review_client(data_dir, config_dir, purpose) as client:
        detail = client.get_event(_event_id(event_id))
    if json:
        print(msgspec.json.encode(detail).decode())
        return
    console = Console(highlight=False)
    _print_event(console, detail.event)
    for record in detail.tokens:
        num_masked = record.prompt_altered.count(1) + record.output_altered.count(1)
        sizes = f"{len(record.prompt_ids) // 4} prompt and {len(record.output_ids) // 4} output ids"
        console.print(f"[bold]tokens[/bold] choice {record.choice}: {sizes}, {num_masked} masked, finish {record.finish_reason}")


@app.command()
def trajectory(trajectory_id: str, data_dir: DataDir, config_dir: ConfigDir, purpose: Purpose = "") -> None:
    """Show one trajectory: its events in order, its reward, whether it may be trained on and why, and what was trained on it."""
    from rich.console import Console

    with review_client(data_dir, config_dir, purpose) as client:
        detail = client.get_trajectory(trajectory_id)
    console = Console(highlight=False)
    for event in detail.events:
        _print_event(console, event)
    verdict = "trainable" if detail.eligible else "not trainable"
    console.print(f"reward {detail.reward}; {verdict} ({detail.reason}); trained by {', '.join(detail.trained_by) or 'no version'}")
    for reward in detail.rewards:
        console.print(
            f"  {reward.name} {reward.value:g} by {reward.source} for {reward.target_kind} {reward.target_id}", markup=False
        )
    console.print(f"now: {detail.place.replace('_', ' ')}")
    for choice, reason in detail.left_out.items():
        console.print(f"  {choice} is context only: {reason.replace('_', ' ')}")
    for choice in detail.cut_and_extended:
        console.print(f"  {choice} was cut by length and gone on from all the same")


@app.command("search-at-rest")
def search_at_rest(
    data_dir: DataDir,
    config_dir: ConfigDir,
    values: Annotated[Path, typer.Option(help="A file with the values to look for, one a line or a JSON list.", exists=True)],
    tokenizer: Annotated[
        Path | None, typer.Option(help="tokenizer.json, to read token ids; that of a running engine else.")
    ] = None,
) -> None:
    """Look for values in everything on the disk, decompressed and decoded: controls that it plants in copies first, then yours.

    Exit status 0: controls found and no value; 1: a value lies there; 2: a control was missed, so the search proves nothing.

    \b
    Example:
      headrace audit search-at-rest --values canaries.txt
    """
    paths = paths_of(data_dir, config_dir)
    if tokenizer is None and paths.stack_file.exists():
        tokenizer = Path(json_module.loads(paths.stack_file.read_text())["model_dir"]) / "tokenizer.json"
    where = [str(paths.data_dir), "--config-dir", str(paths.config_dir), "--values", str(values)]
    read_ids = ["--tokenizer", str(tokenizer)] if tokenizer else []
    command = [sys.executable, "-m", "dataproxy.redact.at_rest", *where, *read_ids]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def _event_id(given: str) -> str:
    """A completion id carries its event's id."""
    from atdp.ids import event_id_in

    return event_id_in(given) or given


def _print_event(console: "Console", event: "Event") -> None:
    from deploy.commands.event_view import marked_lines

    console.rule(f"{event.kind} {event.event_id}")
    whose = f"tenant {event.tenant}  agent {event.agent}  session {event.session_id}  trajectory {event.trajectory_id}"
    console.print(f"{when(event.started_at)}  {whose}", soft_wrap=True)
    for line in marked_lines(event):
        console.print(line, soft_wrap=True)
    for span in event.spans:
        where = f"{span.path} {span.start}:{span.end}"
        console.print(f"  [yellow]{span.surrogate}[/yellow] {span.kind} by {span.detector} ({span.score:.2f}) at {where}")
