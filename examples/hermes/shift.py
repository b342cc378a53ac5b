"""A shift: several Hermes Agents at work at the same time, and a checker that says seconds later whether each did it right.

Each session is a process of its own in a folder of its own, with a number of tickets in its inbox that Hermes has to count and note
(`inbox.py`). Hermes is unmodified: the base URL alone, `/s/<session>/v1`, says which session a call belongs to, so that whoever
knows the folder knows what to reward. `check_work.py` is that somebody: another process, which never talks to Hermes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PROGRAM: Final = Path(__file__).with_name("inbox.py")
DONE: Final = "done.json"
"""What a folder holds once its session is over: session, and whether Hermes got through."""

EPILOG: Final = """
examples:
  # twelve sessions, three at a time, before a Headrace that trains on what the checker says
  headrace up --model DIRECTORY --engine-args "--tool-call-parser hermes"
  python -m examples.hermes.shift --hermes "$(deploy/agents/install.sh)" --api-key $KEY --model NAME --sessions 12 --at-once 3

  # look at what came of it
  headrace status; headrace versions; headrace audit trajectories --agent AGENT

The engine must parse tool calls and serve a context of 64,000 tokens or more. The last line is JSON:
{"sessions", "completed", "work_dir"}.
"""


def prepare(work_dir: Path, session: str, num_tickets: int) -> Path:
    """The folder of a session, with its inbox."""
    inbox = work_dir / session / "inbox"
    inbox.mkdir(parents=True)
    for number in range(num_tickets):
        (inbox / f"ticket-{number}.txt").touch()
    return inbox.parent


def hold(folder: Path, options: argparse.Namespace) -> bool:
    """Hold one session, and say in its folder that it is over; whether Hermes got through."""
    address = urlsplit(options.base_url)
    base_url = f"{address.scheme}://{address.netloc}/s/{folder.name}{address.path}"
    command = [options.hermes, PROGRAM, "--base-url", base_url, "--model", options.model, "--pause-s", str(options.pause_s)]
    if options.api_mode:
        command += ["--api-mode", options.api_mode]
    home = {"HERMES_HOME": str(folder / ".hermes"), "OPENAI_API_KEY": options.api_key}
    with (folder / "hermes.log").open("w") as log:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **home}, stdout=log, stderr=subprocess.STDOUT, check=False)
    said = {"session": folder.name, "completed": done.returncode == 0, "ended_at": time.time()}
    staging = folder / f".{DONE}"
    staging.write_text(json.dumps(said))
    staging.rename(folder / DONE)  # whole, or not there
    print(f"{folder.name}: {'completed' if said['completed'] else 'gave up, see hermes.log in its folder'}", flush=True)
    return done.returncode == 0


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--hermes", required=True, help="the Python that has hermes-agent; deploy/agents/install.sh prints it")
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"), help="Headrace (%(default)s)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="the agent's key (OPENAI_API_KEY)")
    add("--model", required=True, help="model name")
    add("--api-mode", choices=("chat_completions", "codex_responses", "anthropic_messages"), help="Hermes' own choice unless given")
    add("--sessions", type=int, default=12, help="sessions in all (%(default)s)")
    add("--at-once", type=int, default=3, help="of them at the same time (%(default)s)")
    add("--tickets", type=int, nargs="+", default=[3, 5], metavar="N", help="how many tickets an inbox may hold (%(default)s)")
    add("--pause-s", type=float, default=1.0, help="seconds that a person reads before the next request (%(default)s)")
    add("--delay-s", type=float, default=2.0, help="seconds until the checker looks at finished work (%(default)s)")
    add("--work-dir", type=Path, default=Path("hermes-shift"), help="folder of the sessions' folders (%(default)s)")
    add("--seed", type=int, help="draw the numbers of tickets by this seed; without one they take turns")
    options = parser.parse_args(arguments)
    if not options.api_key:
        parser.error("give --api-key, or set OPENAI_API_KEY; `headrace keys create` makes one")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    work_dir = options.work_dir.resolve()
    rng, begun = None if options.seed is None else random.Random(options.seed), f"shift-{int(time.time()):x}"
    folders = []
    for number in range(options.sessions):
        drawn = rng.choice(options.tickets) if rng else options.tickets[number % len(options.tickets)]
        folders.append(prepare(work_dir, f"{begun}-{number}", drawn))
    check = [sys.executable, "-m", "examples.hermes.check_work", *(str(folder) for folder in folders)]
    where = ["--base-url", options.base_url, "--delay-s", str(options.delay_s)]
    root = Path(__file__).parents[2]
    checker = subprocess.Popen([*check, *where], cwd=root, env={**os.environ, "OPENAI_API_KEY": options.api_key})
    try:
        with ThreadPoolExecutor(options.at_once) as pool:
            completed = sum(pool.map(lambda folder: hold(folder, options), folders))
        checked = checker.wait()
    finally:
        checker.terminate()
        checker.wait()
    print(json.dumps({"sessions": len(folders), "completed": completed, "work_dir": str(work_dir)}))
    sys.exit(0 if completed == len(folders) and checked == 0 else 1)


if __name__ == "__main__":
    main()
