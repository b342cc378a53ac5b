"""The next-state judge with a real model behind it, which knows nothing: it answers, abstains, and what it cost is counted."""

import httpx
import msgspec
import pytest

from dataproxy.lease.windows import Now, count_places
from dataproxy.rewards.judge import Judge
from dataproxy.store.judgements import count_judgements
from tests.dataproxy.lease.test_leases import reward as give
from tests.dataproxy.proxy import Proxy
from tests.dataproxy.rewards.setting import JUDGE, given, judged, known, looked, rules, stored, talk
from tests.engine_fixture import MODEL_NAME, RunningEngine

pytestmark = pytest.mark.engine


async def test_a_real_model_that_says_no_verdict_abstains_and_holds_nothing_up(proxy: Proxy, sglang_engine: RunningEngine) -> None:
    await known(proxy)
    settings = msgspec.structs.replace(JUDGE, base_url=f"{sglang_engine.url}/v1", model=MODEL_NAME, max_tokens=8, timeout_s=60.0)
    rules(proxy, judge=settings)
    first, last = await stored(proxy, *talk("sort this ticket", "thanks, that is right"))
    looked(proxy)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert await Judge(proxy.services.database, proxy.clock).run_once(client) == (1, True)
    assert judged(proxy) == [(first, "abstained", 1)] and given(proxy) == []
    with proxy.services.database.read() as connection:
        _, num_tokens, usd = count_judgements(connection, None)
    assert num_tokens > 3 * 8 and usd > 0
    give(proxy, last, 1.0)
    proxy.clock.advance(60)
    with proxy.services.database.read() as connection:
        places = count_places(connection, Now(proxy.clock(), 2.0), "acme")
    assert "judge_waits" not in places
