"""A store of many events for ``bench.console``, made once and written to every database at the same time, leaves and all.

Rows go to the drivers in bulk, past the data proxy's own writing; what they hold, and the log's leaves over them, are what it would
have written, so that proofs of them hold.
"""

import os
import random
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import msgspec
import psycopg
from sqlalchemy import Table

from atdp.versions import PolicyVersion, VersionState, version_name
from dataproxy.ledger.content import OwnedContent, event_content
from dataproxy.ledger.leaf import FIRST, SALT_SIZE, Leaf, commit, hash_of, with_position
from dataproxy.ledger.merkle import Frontier
from dataproxy.ledger.rows import PLAIN, row_leaf
from dataproxy.store.compression import compress
from dataproxy.store.database import Database
from dataproxy.store.dialect import insert_all
from dataproxy.store.schema import (
    content,
    content_span,
    eligibility,
    event,
    log_head,
    log_leaf,
    log_salt,
    policy_version,
    redaction_count,
    reward,
    trajectory,
)

TENANT = "acme"
TURNS, BATCH, NUM_VERSIONS = 4, 2000, 200
_AGENTS = [f"agent-{i:02d}" for i in range(20)]
_REASONS = ["eligible"] * 8 + ["no_consent", "altered"]
_START_US = 1_700_000_000_000_000
_TABLES = (trajectory, content, event, content_span, eligibility, reward, log_leaf, log_salt)
Rows = dict[Table, list[dict[str, Any]]]


class Target(Protocol):
    """A database that takes rows."""

    def take(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """Store them."""


class IntoSqlite:
    """By the data proxy's own connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """Store them."""
        with self._database.write() as connection:
            insert_all(connection, table, rows)


class IntoPostgres:
    """By a superuser's COPY, past row-level security and references."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")

    def take(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """Store them."""
        names = tuple(rows[0])
        columns = ", ".join(f'"{name}"' for name in names)
        values = itemgetter(*names)
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(values(row))


def fill(targets: Sequence[Target], num_events: int, watched: Callable[[Sequence[int]], Iterable[int]] = iter) -> int:
    """Write trajectories of four turns until there are ``num_events``; gives the number of leaves.

    ``watched`` goes through the batches, and may show how far it is.
    """
    draw, log = random.Random(6), _Log()
    for first in watched(range(0, num_events // TURNS, BATCH)):
        rows: Rows = {table: [] for table in _TABLES}
        for number in range(first, min(first + BATCH, num_events // TURNS)):
            _conversation(rows, draw, log, number)
        for target in targets:
            for table, found in rows.items():
                if found:
                    target.take(table, found)
    versions = [_version(number) for number in range(NUM_VERSIONS)]
    head = {"tenant": TENANT, "size": log.frontier.size, "frontier": log.frontier.encode(), "base_position": 0}
    for target in targets:
        target.take(log_head, [head])
        target.take(policy_version, versions)
        target.take(redaction_count, [{"tenant": TENANT, "kind": kind, "num": 1} for kind in ("CARD", "EMAIL")])
    return log.frontier.size


def _version(number: int) -> dict[str, Any]:
    parent = version_name(number - 1) if number else None
    state: VersionState = "serving" if number == NUM_VERSIONS - 1 else "retired"
    metrics = {
        name: number / NUM_VERSIONS for name in ("reward_mean", "entropy", "kl_behaviour_proximal", "clip_fraction", "grad_norm")
    }
    made = PolicyVersion(version_name(number), parent, state, _START_US + number, "/v", batch_id=None, metrics=metrics)
    named = {"tenant": "", "version": made.version, "state": made.state, "created_us": made.created_us}
    return named | {"body": msgspec.json.encode(made)}


class _Log:
    """The leaves of all that is written, as ``dataproxy.ledger.log`` makes them."""

    def __init__(self) -> None:
        self.frontier = Frontier()

    def add(self, rows: Rows, leaf: Leaf, previous: bytes) -> bytes:
        """Append ``leaf`` behind ``previous`` of its chain; gives its hash."""
        index, salt = self.frontier.size, os.urandom(SALT_SIZE)
        proven = leaf.content if leaf.position is None else with_position(leaf.content, leaf.position)
        commitment = commit(salt, proven)
        hashed = hash_of(leaf.tenant, index, leaf.kind, leaf.row_key, leaf.chain, previous, commitment)
        self.frontier.push(hashed)
        named = {"tenant": leaf.tenant, "leaf_index": index}
        where = {"kind": leaf.kind, "row_key": leaf.row_key, "chain": leaf.chain}
        rows[log_leaf].append(named | where | {"previous": previous, "commitment": commitment, "leaf_hash": hashed})
        rows[log_salt].append(named | {"salt": salt})
        return hashed


def _conversation(rows: Rows, draw: random.Random, log: _Log, number: int) -> None:
    name, agent, start = f"tr-{number:032x}", draw.choice(_AGENTS), _START_US + number * 500_000
    whose = {"tenant": TENANT, "trajectory_id": name, "agent": agent, "session_id": f"session-{number // 3}"}
    model, rewarded = "rare-model" if number % 997 == 0 else "tiny", draw.random() < 0.5
    counts = {"num_events": TURNS, "num_eligible": 3, "num_rewards": int(rewarded), "times_trained": 0, "closed": True}
    version = {"last_version": number % NUM_VERSIONS, "newest_version": number % NUM_VERSIONS}
    rows[trajectory].append(whose | {"started_us": start, "last_us": start + 9_000} | counts | version)
    said: list[str] = []
    last = FIRST
    for turn in range(TURNS):
        row, body, owned, decision = _turn(rows, draw, whose, number, turn, said, model)
        proven = event_content(row, body, [], [decision], [], [owned])
        last = log.add(rows, Leaf(TENANT, "event", row["event_id"], name, proven, row["position"]), last)
    if rewarded:
        given = _reward(name, number, round(draw.random(), 2), start)
        rows[reward].append(given)
        log.add(rows, row_leaf(PLAIN["reward"], given), last)


def _turn(
    rows: Rows, draw: random.Random, whose: dict[str, Any], number: int, turn: int, said: list[str], model: str
) -> tuple[dict[str, Any], bytes, OwnedContent, dict[str, Any]]:
    """One event with the content that it is the first to say, and its decision."""
    asked = f"Order {number} turn {turn}: where is number {draw.randrange(10_000)}, please, <EMAIL_1>?"
    message = msgspec.json.encode({"role": "user", "content": asked})
    event_id, digest = f"{number:030x}{turn:02x}", (number * TURNS + turn).to_bytes(16, "big")
    start = _START_US + number * 500_000 + turn * 1000
    said.append(digest.hex())
    rows[content].append({"tenant": TENANT, "digest": digest, "data": compress(message), "owner": event_id})
    spans = []
    if turn == 0:
        place = {"detector": "pattern", "score": 1.0, "path": "/content", "start": 0, "end": 9, "surrogate": "<EMAIL_1>"}
        kind = "CARD" if number % 500 == 0 else "EMAIL"
        spans = [{"tenant": TENANT, "digest": digest, "ordinal": 0, "kind": kind} | place]
        rows[content_span] += spans
    how = {"model": model, "worker": "w1", "versions": [[[version_name(number % NUM_VERSIONS), 0, 9]]]}
    how |= {"release": "r-7"} if number % 50 == 0 else {}
    body = msgspec.json.encode({"o": {"messages": said}, "y": {"status": 200}, "m": how})
    row: dict[str, Any] = whose | {
        "event_id": event_id,
        "position": number * TURNS + turn + 1,
        "kind": "model_call",
        "subject": "",
        "seq": turn,
        "parent_id": None,
        "started_us": start,
        "ended_us": start + 900,
        "boundary": "gateway",
        "model": model,
        "status": 500 if number % 300 == 0 else 200,
        "delivery": "complete",
        "finish_reason": "stop",
        "request_digest": None,
        "body": compress(body),
    }
    rows[event].append(row)
    reason = draw.choice(_REASONS)
    where = {"tenant": TENANT, "event_id": event_id, "choice": 0}
    decision = where | {"eligible": reason == "eligible", "reason": reason, "policy": "p", "decided_us": start}
    rows[eligibility].append(decision)
    return row, body, OwnedContent(digest, message, spans), decision


def _reward(name: str, number: int, value: float, start: int) -> dict[str, Any]:
    where = {"tenant": TENANT, "reward_id": f"rw-{number:032x}", "target_kind": "trajectory", "target_id": name}
    words = {"name": "reward", "value": value, "label": None, "correction": None, "source": "user", "explanation": None}
    rest = {"idempotency_key": None, "supersedes": None, "key_id": "k", "received_us": start + 10_000}
    return where | {"trajectory_id": name} | words | rest
