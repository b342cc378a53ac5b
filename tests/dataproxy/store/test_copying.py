"""Many rows at once: the same rows arrive by COPY as one by one, whatever is in them, and errors are the usual ones."""

import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from dataproxy.store.copying import LEAST_ROWS
from dataproxy.store.dialect import insert_all, insert_new
from dataproxy.store.schema import content, eligibility, tenant
from dataproxy.store.scope import Scope
from tests.dataproxy.proxy import Proxy

ODD = (
    "tab\tquote'\"back\\slash",
    "line\nreturn\r",
    "\\N",
    "\\.",
    "汉字 😀",
    "nul\0",
    "\0",
    "\U0010fffe0",
    "\U0010fffe\0",
    "",
    "%s %(a)s ?",
)


def tenants(count: int) -> list[dict[str, object]]:
    return [{"tenant": f"{ODD[i % len(ODD)]}{i}", "created_us": i} for i in range(count)]


def stored(connection: Connection) -> list[tuple[str, int]]:
    return sorted(tuple(row) for row in connection.execute(select(tenant)))


@pytest.mark.parametrize("count", [1, LEAST_ROWS - 1, LEAST_ROWS, 10 * LEAST_ROWS])
def test_whatever_is_in_them_rows_arrive_as_they_were(proxy: Proxy, count: int) -> None:
    with proxy.services.database.write() as connection:
        insert_new(connection, tenant, tenants(count))
    with proxy.services.database.read() as connection:
        assert stored(connection) == sorted((str(row["tenant"]), row["created_us"]) for row in tenants(count))


def test_bytes_booleans_and_nothing_arrive_too(proxy: Proxy) -> None:
    data = [bytes(range(256)), b"", b"\\x00", b"\0"] * 16
    contents = [{"tenant": "acme", "digest": i.to_bytes(16, "big"), "data": each} for i, each in enumerate(data)]
    decided = {"choice": 0, "reason": "r", "policy": "p", "decided_us": 1}
    decisions = [{"tenant": "acme", "event_id": f"e{i:03d}", "eligible": i % 2 == 0} | decided for i in range(64)]
    with proxy.services.database.write() as connection:
        insert_all(connection, content, contents)
        insert_all(connection, eligibility, decisions)
    assert [row[0] for row in proxy.rows(select(content.c.data).order_by(content.c.digest))] == data
    assert [row[0] for row in proxy.rows(select(eligibility.c.eligible).order_by(eligibility.c.event_id))] == [True, False] * 32


def test_rows_that_are_there_stay_or_are_an_error_and_another_transaction_starts_afresh(proxy: Proxy) -> None:
    some, more = tenants(LEAST_ROWS), tenants(2 * LEAST_ROWS)
    with proxy.services.database.write() as connection:
        insert_new(connection, tenant, some)
        insert_new(connection, tenant, [row | {"created_us": -1} for row in some] + more[LEAST_ROWS:])
        assert len(stored(connection)) == len(more) and min(created for _, created in stored(connection)) == 0
    with pytest.raises(IntegrityError), proxy.services.database.write() as connection:
        insert_all(connection, tenant, more)
    with proxy.services.database.write() as connection:
        insert_new(connection, tenant, more)
        assert len(stored(connection)) == len(more)


def test_a_row_of_another_tenant_is_refused_among_many(proxy: Proxy, store_kind: str) -> None:
    if store_kind == "sqlite":
        return  # there it is up to the question
    rows = [{"tenant": "acme", "created_us": 1}, *tenants(LEAST_ROWS)]
    with pytest.raises(Exception, match="row-level security"), proxy.services.database.write(Scope("acme")) as connection:
        insert_new(connection, tenant, rows)
