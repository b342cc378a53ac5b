"""What keys may use and have used: set, changed, told to gateways, summed once per exchange."""

import base64
import json

import pytest
from sqlalchemy import select

from dataproxy.capture.usage import estimate, num_tokens
from dataproxy.client.types import KeyLimits, NewKey
from dataproxy.store.consents import ConsentBook
from dataproxy.store.keys import issue_key, key_table, set_limits
from dataproxy.store.schema import key_usage
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import BROKEN_WORD, Proxy


def ids(count):
    return base64.b64encode(bytes(4 * count)).decode()


@pytest.mark.parametrize(
    ("record", "used"),
    [
        ({"prompt_ids": ids(7), "choices": [{"output_ids": ids(2)}, {"output_ids": ids(3)}]}, 12),
        ({"prompt_ids": ids(5), "choices": []}, 5),
        ({"usage": {"prompt_tokens": 4, "completion_tokens": 5}}, 9),
        ({"usage": {"total_tokens": 11, "prompt_tokens": 4}}, 11),
    ],
)
def test_a_record_says_how_many_tokens_were_used(record, used):
    assert num_tokens(json.dumps(record).encode()) == used


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"prompt_ids":3}'])
def test_what_is_no_record_says_nothing(record):
    assert num_tokens(record) is None


def test_limits_reach_the_gateways_and_change_without_the_key(proxy: Proxy) -> None:
    with proxy.services.database.write() as connection:
        plain = issue_key(connection, NewKey("acme", "a", "agent"), 1).key_id
        narrow = issue_key(connection, NewKey("acme", "b", "agent", limits=KeyLimits(2, 60, 1000, 10**12)), 1).key_id

    def limits(key_id: str) -> KeyLimits | None:
        with proxy.services.database.read() as connection:
            return {row.key_id: row.limits for row in key_table(connection, ConsentBook.read(connection))}[key_id]

    assert limits(plain) is None
    assert limits(narrow) == KeyLimits(2, 60, 1000, 10**12)
    with proxy.services.database.write() as connection:
        set_limits(connection, narrow, KeyLimits(budget_tokens=5))
    assert limits(narrow) == KeyLimits(budget_tokens=5)
    with proxy.services.database.write() as connection:
        set_limits(connection, narrow, KeyLimits())
    assert limits(narrow) is None


async def test_tokens_are_summed_by_key_once_each_quarantined_ones_too(proxy: Proxy) -> None:
    journal = proxy.journal()
    recorded = exchange([user("hi")], prompt=[1, 2, 3], outputs=[[7, 8], [9]])
    refused = exchange([user("no")], status=400, delivery="engine_error")
    cut = exchange([user("x" * 400)], delivery="disconnected")
    broken = exchange([user(BROKEN_WORD)], prompt=[1] * 10, outputs=[[2]])
    await write(journal, recorded, refused, cut, broken)
    proxy.drain()
    expected = 6 + 0 + estimate(len(cut[0].body)) + 11
    assert proxy.rows(select(key_usage.c.tenant, key_usage.c.key_id, key_usage.c.num_tokens)) == [("acme", "key-1", expected)]
    await write(journal, recorded)  # as after a crash between the commit and the journal's own clean-up
    proxy.restart()
    proxy.drain()
    assert proxy.rows(select(key_usage.c.num_tokens)) == [(expected,)]
    journal.close()
