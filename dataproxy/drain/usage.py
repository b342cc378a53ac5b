"""Tokens by key, summed in the transaction that stores the exchanges: what budgets are held against."""

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import Connection

from dataproxy.capture.records import ResponseHalf
from dataproxy.capture.usage import estimate, num_tokens
from dataproxy.drain.exchange import RawExchange
from dataproxy.ingest.mcp import DIALECT as MCP
from dataproxy.store.dialect import add_to
from dataproxy.store.schema import key_usage


def add_usage(connection: Connection, exchanges: Iterable[RawExchange]) -> None:
    """Count ``exchanges``, none of which was counted before; those that go to the quarantine were used as well."""
    used: Counter[tuple[str, str]] = Counter()
    for raw in exchanges:
        used[raw.request.tenant, raw.request.key_id] += tokens_used(raw)
    for (tenant, key_id), num in used.items():
        if num:
            add_to(connection, key_usage, {"tenant": tenant, "key_id": key_id, "num_tokens": num}, "num_tokens")


def tokens_used(raw: RawExchange) -> int:
    """By the record; nothing where the engine refused; else an estimate from the request's size, as the gateway made it."""
    if raw.request.dialect == MCP:
        return 0
    response: ResponseHalf | None = raw.response
    counted = num_tokens(response.record) if response is not None else None
    if counted is not None:
        return counted
    refused = response is not None and response.delivery == "engine_error"
    return 0 if refused else estimate(len(raw.request.body))
