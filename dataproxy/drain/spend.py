"""What calls of external models cost, summed by key and model in the drain's transaction. Nanodollars: sums of floats drift."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection

from dataproxy.drain.exchange import RawExchange
from dataproxy.store.dialect import add_to
from dataproxy.store.schema import key_spend

_NANO = 1e9


class _Cost(msgspec.Struct):
    model: str = ""
    cost_usd: float | None = None


_decode = msgspec.json.Decoder(_Cost).decode


def add_spend(connection: Connection, exchanges: Iterable[RawExchange]) -> None:
    """Add what each of ``exchanges`` cost, where a price was known; those that go to the quarantine were paid for as well."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for raw in exchanges:
        cost = _cost(raw)
        if cost.cost_usd is not None:
            sums[raw.request.tenant, raw.request.key_id, cost.model] += round(cost.cost_usd * _NANO)
    for (tenant, key_id, model), nanodollars in sums.items():
        row = {"tenant": tenant, "key_id": key_id, "model": model, "nanodollars": nanodollars}
        add_to(connection, key_spend, row, "nanodollars")


def _cost(raw: RawExchange) -> _Cost:
    if raw.response is None or b'"cost_usd"' not in raw.response.record:
        return _Cost()
    try:
        return _decode(raw.response.record)
    except msgspec.DecodeError:
        return _Cost()
