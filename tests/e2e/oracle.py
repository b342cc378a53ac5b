"""What the durability tests compare: the client's own file against the database, read past the product's own code."""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from atdp.versions import version_index
from deploy.launcher.running import RunningStack

_EVENT_ID = slice(-48, -16)  # whatever the dialect's prefix: 32 hex digits, and 16 of the MAC behind them


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    """The client's lines of one kind; a torn last line is not one it had acted on."""
    whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [entry for entry in map(json.loads, whole) if entry["kind"] == kind]


def num_answers(path: Path) -> int:
    """How many answers the client has, counted and not read: a long test asks again and again."""
    return path.read_bytes().count(b'"kind": "answer"') if path.exists() else 0


def rows(stack: RunningStack, query: str) -> list[tuple[Any, ...]]:
    """``query`` on the store, read-only, by SQLite alone."""
    database = stack.paths.data_dir / "store" / "headrace.db"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def event_id(completion_id: str) -> str:
    """The event id inside a completion id."""
    return completion_id[_EVENT_ID]


def check_answers(stack: RunningStack, answers: list[dict[str, Any]]) -> None:
    """Every answer received in full is stored as complete, once, with its text; no call is stored twice."""
    stored = Counter(
        row[0] for row in rows(stack, "SELECT event_id FROM event WHERE kind = 'model_call' AND delivery = 'complete'")
    )
    received = [event_id(answer["id"]) for answer in answers]
    lost = [answer for answer, identifier in zip(answers, received, strict=True) if stored[identifier] != 1]
    assert not lost, f"{len(lost)} of {len(answers)} answers are not stored: {lost[:3]}"
    assert len(set(received)) == len(received), "one completion id was given to two answers"
    asked: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for event in all_events(stack):
        asked[json.dumps(event.o["messages"][-1])] += 1
        texts[event.event_id] = answer_text(event.a)
    twice = [call for call, times in asked.items() if times > 1]
    assert not twice, f"stored twice: {twice[:3]}"
    changed = [answer for answer, identifier in zip(answers, received, strict=True) if texts[identifier] != answer["text"]]
    assert not changed, f"{len(changed)} answers are stored with another text: {changed[:3]}"


def answer_text(action: dict[str, Any]) -> str:
    """The text of the first choice of a model call; empty where the call broke off before there was one."""
    messages = action.get("messages") or [{}]
    return str(messages[0].get("content") or "")


def all_events(stack: RunningStack) -> list[Any]:
    """Every model call in the store, by the reviewer's interface."""
    events: list[Any] = []
    with stack.client() as client:
        after: int | None = None
        while True:
            page = client.list_events(limit=500, after=after, kind="model_call")
            events += page.events
            after = page.next_after
            if after is None:
                return events


def check_rewards(stack: RunningStack, acknowledged: list[dict[str, Any]]) -> None:
    """Every reward that was acknowledged stands once, with its value."""
    stored = Counter((event, round(value, 9)) for event, value in rows(stack, "SELECT target_id, value FROM reward"))
    lost = [line for line in acknowledged if stored[event_id(line["id"]), round(line["value"], 9)] != 1]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged rewards are not stored once: {lost[:3]}"


def check_training(stack: RunningStack) -> None:
    """No trajectory was trained twice; version numbers rise, and each descends from one on record."""
    used = Counter(row[0] for row in rows(stack, "SELECT trajectory_id FROM training_use"))
    assert used and not [t for t, times in used.items() if times > 1], f"trained twice: {used.most_common(3)}"
    with stack.client() as client:
        versions = client.list_versions()
    names = [version.version for version in versions]
    indices = [version_index(name) for name in names]
    assert indices == sorted(set(indices))
    assert all(version.parent in names for version in versions if version.parent is not None)


def until(condition: Callable[[], bool], what: str, stack: RunningStack, timeout_s: float = 600.0) -> None:
    """Wait for ``condition``; fail with the stack's last words where it does not come.

    An engine that starts beside others on a busy machine takes minutes. Looks cost a quarter of one core at most: what is waited
    for needs the rest.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if condition():
            return
        stack.check()
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"{what} did not happen in {timeout_s:g} s:\n{stack.last_words()}")
        time.sleep(min(max(0.05, 3 * (now - began)), 1.0))
