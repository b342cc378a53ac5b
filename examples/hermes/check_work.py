"""The checker: looks at what a session left in its folder, some seconds after it ended, and rewards the session by its name.

It has the agent's key and the folders, and never talks to Hermes. Right is one thing only: count.txt names the number of files that
lie in the inbox.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Final

import httpx

REWARD: Final = "count_is_right"
_DONE: Final = "done.json"
_POLL_S: Final = 0.1
_PATIENCE_S: Final = 60.0
"""How long a session may be unknown: its calls are stored a moment after they were answered."""

EPILOG: Final = """
example:
  python -m examples.hermes.check_work hermes-shift/shift-* --base-url http://127.0.0.1:8080/v1 --api-key $KEY

What is posted: POST {base-url}/feedback {"target": SESSION, "name": "count_is_right", "value": 1.0 or 0.0, "source": "test",
"idempotency_key": "SESSION:count_is_right"}.
"""


def is_right(folder: Path) -> bool:
    """Whether the note says how many tickets there are."""
    note = folder / "count.txt"
    found = re.search(r"\d+", note.read_text()) if note.exists() else None
    return found is not None and int(found[0]) == sum(1 for _ in (folder / "inbox").iterdir())


def post(client: httpx.Client, session: str, value: float) -> None:
    """Give one reward; tries again while the session is not stored yet or the server is busy.

    Raises:
        httpx.HTTPStatusError: the server will not have it.
    """
    said = {"target": session, "name": REWARD, "value": value, "source": "test", "idempotency_key": f"{session}:{REWARD}"}
    until = time.monotonic() + _PATIENCE_S
    while True:
        answer = client.post("feedback", json=said)
        if answer.status_code not in (404, 429, 502, 503, 504) or time.monotonic() > until:
            answer.raise_for_status()
            return
        time.sleep(_POLL_S)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folders", nargs="+", type=Path, metavar="FOLDER", help="the sessions' folders; each is named like its session")
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"), help="Headrace (%(default)s)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="a key of the agent (OPENAI_API_KEY)")
    add("--delay-s", type=float, default=2.0, help="seconds after the end of a session (%(default)s)")
    options = parser.parse_args(arguments)
    if not options.api_key:
        parser.error("give --api-key, or set OPENAI_API_KEY")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    headers = {"authorization": f"Bearer {options.api_key}"}
    waiting = list(options.folders)
    with httpx.Client(base_url=options.base_url, headers=headers, timeout=60.0) as client:
        while waiting:
            for folder in [folder for folder in waiting if (folder / _DONE).exists()]:
                ended_at = json.loads((folder / _DONE).read_text())["ended_at"]
                if time.time() >= ended_at + options.delay_s:
                    value = float(is_right(folder))
                    post(client, folder.name, value)
                    print(f"checker: {folder.name} earned {value:g}", flush=True)
                    waiting.remove(folder)
            time.sleep(_POLL_S)


if __name__ == "__main__":
    try:
        main()
    except httpx.HTTPError as error:
        sys.exit(f"checker: {error}")
