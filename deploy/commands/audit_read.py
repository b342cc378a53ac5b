"""``headrace audit log`` and ``search``: who read what, and where something is said."""

from datetime import datetime
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, Purpose, columns, review_client, when, wide

Since = Annotated[datetime | None, typer.Option(help="Begun then or later, local time.")]
Until = Annotated[datetime | None, typer.Option(help="Begun before then, local time.")]


def log(
    data_dir: DataDir,
    config_dir: ConfigDir,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    after: Annotated[str | None, typer.Option(help="Go on from here: the id printed under the last page.")] = None,
    reader: Annotated[str | None, typer.Option(help="By this key id only.")] = None,
    target: Annotated[str | None, typer.Option(help="Of this event, trajectory or session only.")] = None,
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """List who read what, when and why, oldest first. This read is on the list too.

    \b
    Examples:
      headrace audit log
      headrace audit log --reader key-0123 --json
    """
    import msgspec

    with review_client(data_dir, config_dir, purpose) as client:
        page = client.access_log(limit, after, reader, target)
    if json:
        print(msgspec.json.encode(page).decode())
        return
    table = columns("read", "when", "tenant", "key", "role", "what", "which", "why")
    for row in page.rows:
        whose = (row.tenant or "(operator)", row.key_id, row.role)
        table.add_row(row.event_id, when(row.at_us), *whose, row.what, row.target, row.why)
    console = wide()
    console.print(table)
    if page.next_after is not None:
        console.print(f"More: headrace audit log --after {page.next_after}", highlight=False)


def search(
    data_dir: DataDir,
    config_dir: ConfigDir,
    text: Annotated[str, typer.Argument(help="What an event says, redacted, whatever its case; nothing: any event.")] = "",
    kind: Annotated[str | None, typer.Option(help="Of this kind only: model_call, tool_call, access, …")] = None,
    agent: Annotated[str | None, typer.Option(help="Of this agent only.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session only.")] = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[int, typer.Option(help="Go on from here: the number printed under the last page.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    purpose: Purpose = "",
    json: Json = False,
) -> None:
    """Find events by what they say and what they are. What was redacted cannot be found: it is not there.

    \b
    Examples:
      headrace audit search refund --kind model_call --since 2026-11-01
      headrace audit search --agent billing --session ticket-17
    """
    import msgspec

    from dataproxy.client.review_types import SearchRequest
    from deploy.commands.event_view import event_table

    request = SearchRequest(text, kind, agent, session, _us(since), _us(until), after, limit)
    with review_client(data_dir, config_dir, purpose) as client:
        page = client.search(request)
    if json:
        print(msgspec.json.encode(page).decode())
        return
    console = wide()
    console.print(event_table(page.events) if page.events else "Nothing here.")
    if page.next_after is not None:
        console.print(f"More may follow: the same command with --after {page.next_after}", highlight=False)


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1e6)
