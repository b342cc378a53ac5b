"""A call whose gateway dies before the engine has answered is on record all the same: what was asked was sealed early."""

import asyncio
import signal
from pathlib import Path

import pytest
from sqlalchemy import select

from dataproxy.capture.layout import list_segments
from dataproxy.capture.reader import SegmentReader
from dataproxy.capture.records import RequestHalf
from dataproxy.store.reading import list_events
from dataproxy.store.schema import eligibility
from tests.dataproxy.proxy import SECRET_WORD, Clock, Proxy
from tests.fakes.dataproxy import FakeDataProxy
from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import KEYS
from tests.gateway.sse import BODY, CHAT, eventually
from tests.gateway.test_process import started

ASKED = {**BODY, "messages": [{"role": "user", "content": f"it is {SECRET_WORD}"}]}


def journaled(proxy: Proxy) -> list[object]:
    """The halves that lie in the journal now."""
    private = proxy.files.journal_private()
    return [one.half for files in list_segments(proxy.data_dir / "journal") for one in SegmentReader(files, private).read()]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_asked_is_on_record_where_the_gateway_dies_before_the_answer(run_dir: Path, stream: bool) -> None:
    proxy, engine, gate = Proxy(run_dir, Clock()), FakeEngine(), asyncio.Event()
    proxy.consent()
    engine.model.token_gate = gate.wait
    data_dir = proxy.data_dir
    (data_dir / "run").mkdir()
    async with FakeDataProxy(KEYS).serve(data_dir / "run" / "dataproxy.sock"), engine.serve() as url:
        async with started(run_dir, url, DATA_DIR=data_dir) as (client, process):
            call = asyncio.create_task(client.post(CHAT, json={**ASKED, "stream": stream}))
            await eventually(lambda: engine.model.running)
            await eventually(lambda: journaled(proxy))  # and the engine waits before its second token
            assert proxy.drain() == 0  # it may be answered still
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], Exception)
        gate.set()
    (half,) = journaled(proxy)
    assert isinstance(half, RequestHalf)
    assert proxy.drain() == 1
    with proxy.services.database.read() as connection:
        ((_, event),) = list_events(connection, "acme", 10, 0, None, None)
    assert (event.event_id, event.kind, event.y["delivery"]) == (half.event_id, "model_call", "incomplete")
    assert event.o["messages"] == [{"role": "user", "content": "it is <PASSWORD_1>"}] and not event.a.get("messages")
    decisions = proxy.rows(select(eligibility.c.eligible, eligibility.c.reason))
    assert [tuple(row) for row in decisions] == [(False, "incomplete")]
    assert journaled(proxy) == [] and SECRET_WORD.encode() not in proxy.everything_at_rest()
