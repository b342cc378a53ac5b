"""No page looks among all rows of a tenant for those that it shows; one that begins at the end of a list takes a page of it."""

import re
from pathlib import Path

import pytest

from bench.console import FILTERS, PAGES, browser, sign_in
from bench.console_store import TENANT, IntoSqlite, fill
from dataproxy.api.app import create_app
from dataproxy.client.types import NewKey
from dataproxy.store.keys import issue_key
from tests.dataproxy.proxy import Clock, Proxy
from tests.dataproxy.store.test_plans import Statements, asked, by_tenant_alone

_MEANT = re.compile(
    r"(\.tenant|event\.kind) = \? ORDER BY [^?]+\sLIMIT"  # a page of a whole list, or of all model calls
    r"|^SELECT trajectory\.[^?]+.*\sLIMIT"  # filtered trajectories, which look back a bounded time
    r"|^SELECT (trajectory\.tenant, )?count\("  # of a whole table, which Live and Tenants show
    r"|^SELECT max\(",  # the end of an index
    re.DOTALL,
)
_READS = (
    *("access?purpose=audit", "access?others=yes", "access?what=tokens"),
    *("access?since=2023-11-14&until=2023-11-15T12:00", "access?since=2023-11-14&purpose=audit&others=yes&reader=key-7"),
)


@pytest.mark.parametrize("role", ["reviewer", "admin"])
async def test_pages_find_what_they_show_by_more_than_the_tenant(tmp_path: Path, role: str) -> None:
    made = Proxy(tmp_path, clock := Clock())
    fill([IntoSqlite(made.services.database)], 5000)
    with made.services.database.write() as connection:
        key = issue_key(connection, NewKey(TENANT, "", role), clock()).key
        made.services.keys.load(connection)
    questions: Statements = []
    async with browser(create_app(made.services)) as client:
        await sign_in(client, key)
        for path in (*PAGES.values(), *_READS, *(f"trajectories?{query}" for query in FILTERS.values())):
            with asked() as statements:
                assert (await client.get(f"/console/{path}")).status_code in ((200,) if role == "admin" else (200, 403))
            questions += [(statement, bound) for statement, bound in statements if not _MEANT.search(statement)]
    assert len(questions) > 300
    assert by_tenant_alone(made, questions) == []
