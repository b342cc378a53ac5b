"""What events of trajectories say that no column holds: words, tools that were called or failed, the release that they ran under.

Bodies are read and unpacked, so whoever asks bounds the number of trajectories.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from dataproxy.store.compression import decompress
from dataproxy.store.reading import named_contents
from dataproxy.store.schema import content, event
from dataproxy.store.search import strings_in
from dataproxy.store.trajectory_rows import by_tenant, chunks_of

_Key = tuple[str, str]
_LEAST_OF_A_FINGERPRINT = 8


class _Body(msgspec.Struct):
    """Of an event's body what is looked at here."""

    o: dict[str, Any] = {}
    a: dict[str, Any] = {}
    y: dict[str, Any] = {}
    m: dict[str, Any] = {}


def saying(connection: Connection, keys: Sequence[_Key], text: str) -> set[_Key]:
    """Those trajectories of which an event says ``text`` in any string, whatever its case."""
    needle = _Needle(text)
    found: set[_Key] = set()
    for owner, ids in by_tenant(keys):
        holders: dict[bytes, set[str]] = defaultdict(set)
        query = select(event.c.trajectory_id, event.c.body).where(event.c.tenant == owner, event.c.trajectory_id.in_(ids))
        for row in connection.execute(query):
            data = decompress(row.body) if row.body else b"{}"
            if needle.is_in(data):
                found.add((owner, row.trajectory_id))
            for digest, _ in named_contents(msgspec.json.decode(data, type=_Body)):
                holders[digest].add(row.trajectory_id)
        for digests in chunks_of(list(holders)):
            where = (content.c.tenant == owner, content.c.digest.in_(digests))
            for one in connection.execute(select(content.c.digest, content.c.data).where(*where)):
                if needle.is_in(decompress(one.data)):
                    found.update((owner, name) for name in holders[one.digest])
    return found


class _Needle:
    """A text to find in the strings of JSON: most JSON is passed over without being decoded."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        self._encoded = msgspec.json.encode(self._text)[1:-1].decode()

    def is_in(self, data: bytes) -> bool:
        """Whether a string in the JSON ``data`` says it; keys don't count."""
        if self._encoded not in data.decode().casefold():
            return False
        return any(self._text in leaf.casefold() for leaf in strings_in(msgspec.json.decode(data)))


def calling(connection: Connection, keys: Sequence[_Key], tool: str) -> set[_Key]:
    """Those trajectories in which the tool of that name was called, whether it answered or not."""
    found: set[_Key] = set()
    encoded = msgspec.json.encode(tool)
    for owner, ids in by_tenant(keys):
        asked: dict[bytes, set[str]] = defaultdict(set)
        for trajectory_id, kind, data in _bodies(connection, owner, ids):
            body = msgspec.json.decode(data, type=_Body)
            if kind == "tool_call" and body.a.get("name") == tool:
                found.add((owner, trajectory_id))
            for name in body.a.get("messages", []):
                asked[bytes.fromhex(name)].add(trajectory_id)
        for digests in chunks_of(list(asked)):
            where = (content.c.tenant == owner, content.c.digest.in_(digests))
            for one in connection.execute(select(content.c.digest, content.c.data).where(*where)):
                data = decompress(one.data)
                if encoded in data and tool in _called(msgspec.json.decode(data)):
                    found.update((owner, name) for name in asked[one.digest])
    return found


def with_failed_tool(connection: Connection, keys: Sequence[_Key]) -> set[_Key]:
    """Those trajectories of which a tool's answer was an error."""
    return {
        (owner, trajectory_id)
        for owner, ids in by_tenant(keys)
        for trajectory_id, kind, data in _bodies(connection, owner, ids)
        if kind == "tool_call" and "error" in msgspec.json.decode(data, type=_Body).y
    }


def released(connection: Connection, keys: Sequence[_Key], release: str) -> set[_Key]:
    """Those trajectories of which an event ran under the release of that name, or under a harness whose fingerprint begins so."""
    needle = msgspec.json.encode(release)[1:-1]
    return {
        (owner, trajectory_id)
        for owner, ids in by_tenant(keys)
        for trajectory_id, _, data in _bodies(connection, owner, ids)
        if needle in data and _ran_under(msgspec.json.decode(data, type=_Body).m, release)
    }


def _ran_under(m: dict[str, Any], release: str) -> bool:
    harness = m.get("harness")
    is_harness = isinstance(harness, str) and len(release) >= _LEAST_OF_A_FINGERPRINT and harness.startswith(release)
    return is_harness or m.get("release") == release


def _bodies(connection: Connection, owner: str, ids: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
    """(trajectory, kind, body as JSON) of each event of ``ids`` that was not erased."""
    query = select(event.c.trajectory_id, event.c.kind, event.c.body)
    for row in connection.execute(query.where(event.c.tenant == owner, event.c.trajectory_id.in_(ids))):
        if row.body:
            yield row.trajectory_id, row.kind, decompress(row.body)


def _called(message: Any) -> set[str]:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    functions = (call.get("function") for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()
    return {str(function.get("name")) for function in functions if isinstance(function, dict)}
