"""External models' exchanges: recorded without tokens, priced, summed by key, never trainable."""

import msgspec
from sqlalchemy import select

from dataproxy.store.reading import find_event
from dataproxy.store.schema import eligibility, token_segment
from dataproxy.store.statistics import read_status
from deploy.commands.event_view import marked_lines
from tests.dataproxy.exchanges import call_in
from tests.dataproxy.lease.test_leases import lease, reward, stored
from tests.dataproxy.proxy import BROKEN_WORD, Proxy


def external(text: str = "hi", **changes: object):  # type: ignore[no-untyped-def]
    counts = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    body = {
        "v": 1,
        "rid": "r",
        "model": "judge",
        "engine": {"name": "litellm", "version": "1"},
        "cost_usd": 3.9e-06,
        "usage": counts,
    }
    request = {"messages": [{"role": "user", "content": text}]}
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
    return call_in("chat", request, answer, engine_record=msgspec.json.encode(body | changes))


async def test_it_is_recorded_with_its_price_and_never_trains(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, external())
    with proxy.services.database.read() as connection:
        event = find_event(connection, "acme", event_id)
    assert event is not None and event.a["messages"] == [{"role": "assistant", "content": "ok"}]
    assert event.m["cost_usd"] == 3.9e-06 and event.m["usage"]["total_tokens"] == 14 and event.m["engine"]["name"] == "litellm"
    assert proxy.rows(select(eligibility.c.eligible, eligibility.c.reason)) == [(False, "external_model")]
    assert proxy.rows(select(token_segment)) == []
    reward(proxy, event_id)
    proxy.clock.advance(10)
    assert lease(proxy).samples == []
    assert any("/m/cost_usd: 3.9e-06" in str(line) for line in marked_lines(event))


async def test_what_a_key_spent_is_summed_and_quarantined_calls_count(proxy: Proxy) -> None:
    await stored(proxy, *(external() for _ in range(3)), external(BROKEN_WORD), external(cost_usd=None))
    with proxy.services.database.read() as connection:
        status = read_status(connection, 0)
    assert status.spend == {"key-1": 1.56e-05} and status.quarantine == {"redaction_not_located": 1}


async def test_a_price_that_nobody_knows_is_no_price(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, external(cost_usd=None))
    with proxy.services.database.read() as connection:
        event = find_event(connection, "acme", event_id)
        assert event is not None and "cost_usd" not in event.m and read_status(connection, 0).spend == {}
