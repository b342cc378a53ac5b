"""An event as text for a terminal: every string in it with its JSON pointer, surrogates marked."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from atdp.events import Event
from deploy.commands.options import columns, when

_PARTS = (("o", "observed"), ("h", "hidden state"), ("a", "action"), ("y", "outcome"))
_ORIGIN = ("model", "dialect", "previous_event_id", "engine", "usage", "cost_usd")


def event_table(events: Sequence[Event]) -> Table:
    """An event a line."""
    table = columns("event", "when", "kind", "tenant", "agent", "session", "redacted")
    for event in events:
        redacted = str(len(event.spans)) if event.spans else ""
        whose = (event.kind, event.tenant, event.agent, event.session_id[:16])
        table.add_row(event.event_id, when(event.started_at), *whose, redacted)
    return table


def marked_lines(event: Event) -> Iterator[Text]:
    """Each leaf of observation, hidden state, action and outcome, and of m where it came from and what it cost.

    As ``pointer: value``; surrogates of the event's spans stand out.
    """
    surrogates = {span.surrogate for span in event.spans}
    pattern = (
        re.compile("|".join(re.escape(surrogate) for surrogate in sorted(surrogates, key=len, reverse=True)))
        if surrogates
        else None
    )
    origin = {name: event.m[name] for name in _ORIGIN if name in event.m}
    for title, found, root in (*((title, getattr(event, part), f"/{part}") for part, title in _PARTS), ("origin", origin, "/m")):
        leaves = list(_leaves(found, root))
        if leaves:
            yield Text(title, style="bold")
        for pointer, value in leaves:
            line = Text(f"  {pointer}: ", style="dim")
            text = Text(value, style="default")
            if pattern is not None:
                text.highlight_regex(pattern, "black on yellow")
            yield line.append_text(text)


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{pointer}/{index}")
    elif value not in (None, "", b""):
        yield pointer, str(value)
