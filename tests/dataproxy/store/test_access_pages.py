"""The list of reads: what is found by time and purpose, and that a page of it looks at a bounded number."""

from typing import Any

from dataproxy.client.review_types import NO_PURPOSE
from dataproxy.store.access_pages import MOST_READS, ReadQuery, page_of_reads
from dataproxy.store.schema import access_log
from tests.dataproxy.proxy import Proxy

_AT_US = 1_770_000_000_000_000
_MINUTE_US = 60_000_000


def reads(proxy: Proxy, *purposes: str, start_us: int = _AT_US) -> None:
    """A read a minute, each of ``minute-N`` by ``key-N``."""
    rows: list[dict[str, Any]] = []
    for minute, purpose in enumerate(purposes):
        at_us = start_us + minute * _MINUTE_US
        row = {"tenant": "acme", "event_id": f"{at_us // 1000:012x}7{minute:019x}", "key_id": f"key-{minute}", "role": "reviewer"}
        rows.append(row | {"what": "trajectory", "target": f"minute-{minute}", "at_us": at_us, "purpose": purpose})
    with proxy.services.database.write() as connection:
        connection.execute(access_log.insert(), rows)


def found(proxy: Proxy, **wanted: Any) -> list[str]:
    """What was read, newest first."""
    with proxy.services.database.read() as connection:
        return [row.target for row in page_of_reads(connection, "acme", ReadQuery(**wanted), "", 50).rows]


def test_reads_are_found_by_time_to_the_microsecond(proxy: Proxy) -> None:
    reads(proxy, "a", "b", "c")
    second_us = _AT_US + _MINUTE_US
    assert found(proxy) == ["minute-2", "minute-1", "minute-0"]
    assert found(proxy, since_us=second_us) == ["minute-2", "minute-1"] and found(proxy, since_us=second_us + 1) == ["minute-2"]
    assert found(proxy, until_us=second_us) == ["minute-0"] and found(proxy, until_us=second_us + 1) == ["minute-1", "minute-0"]
    assert found(proxy, since_us=second_us, until_us=second_us + 1) == ["minute-1"]
    assert found(proxy, until_us=-1) == found(proxy, since_us=1 << 62) == []


def test_reads_are_found_by_purpose_and_without_those_of_one_key(proxy: Proxy) -> None:
    reads(proxy, "the YEARLY audit", "", "Größe 50%")
    assert found(proxy, purpose="yearly") == ["minute-0"] and found(proxy, purpose="GRÖSSE 50%") == ["minute-2"]
    assert found(proxy, purpose=NO_PURPOSE) == ["minute-1"]
    assert found(proxy, not_by="key-1") == ["minute-2", "minute-0"]


def test_a_page_looks_at_a_bounded_number_and_says_how_far_back(proxy: Proxy) -> None:
    reads(proxy, "rare", *["often"] * MOST_READS)
    wanted = ReadQuery(purpose="rare")
    with proxy.services.database.read() as connection:
        first = page_of_reads(connection, "acme", wanted, "", 50)
        assert first.rows == [] and first.looked_back_to_us == _AT_US + _MINUTE_US and first.next_before is not None
        rest = page_of_reads(connection, "acme", wanted, first.next_before, 50)
        often = page_of_reads(connection, "acme", ReadQuery(purpose="often"), "", 50)
    assert [row.target for row in rest.rows] == ["minute-0"] and rest.next_before is rest.looked_back_to_us is None
    assert len(often.rows) == 50 and often.next_before == often.rows[-1].event_id and often.looked_back_to_us is None


def test_reads_of_another_time_are_not_looked_at(proxy: Proxy) -> None:
    reads(proxy, "long ago")
    reads(proxy, *["often"] * (MOST_READS + 1), start_us=_AT_US + 86_400_000_000)
    assert found(proxy, purpose="long", until_us=_AT_US + _MINUTE_US) == ["minute-0"]
