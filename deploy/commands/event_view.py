"""An event as text for a terminal: every string in it with its JSON pointer, surrogates marked."""

import re
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from atdp.events import Event

_PARTS = (("o", "observed"), ("h", "harness"), ("a", "action"), ("y", "outcome"))


def marked_lines(event: Event) -> Iterator[Text]:
    """Each leaf of observation, harness, action and outcome as ``pointer: value``; surrogates of the event's spans stand out."""
    surrogates = {span.surrogate for span in event.spans}
    pattern = (
        re.compile("|".join(re.escape(surrogate) for surrogate in sorted(surrogates, key=len, reverse=True)))
        if surrogates
        else None
    )
    for part, title in _PARTS:
        leaves = list(_leaves(getattr(event, part), f"/{part}"))
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
