"""The drain: exactly once into the store, nothing lost when it or a gateway dies, nothing in the clear when redaction fails."""

import logging
import shutil
import threading
import time
from pathlib import Path
from unittest.mock import ANY

import msgspec
import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from atdp.events import Event
from dataproxy.capture.layout import list_segments
from dataproxy.drain.quarantine import open_quarantined
from dataproxy.drain.redaction import Redactor
from dataproxy.store.events import StoredEvent, insert_events, next_position
from dataproxy.store.reading import find_event, list_events
from dataproxy.store.schema import (
    content,
    conversation_end,
    eligibility,
    event,
    journal_offset,
    quarantine,
    redaction_count,
    session,
    token_segment,
    trajectory,
)
from dataproxy.store.segments import token_records
from tests.dataproxy.exchanges import exchange, record, said, user, write
from tests.dataproxy.lease.test_leases import stored
from tests.dataproxy.proxy import BROKEN_WORD, MASK, SECRET_ID, SECRET_WORD, Proxy

TABLES = (redaction_count, event, content, token_segment, eligibility, trajectory, session, conversation_end, quarantine)


async def test_an_exchange_becomes_an_event_with_everything_where_atdp_puts_it(proxy: Proxy) -> None:
    journal = proxy.journal()
    answers = [{"role": "assistant", "content": "done", "reasoning_content": "hm", "tool_calls": None}]
    asked, got = exchange(
        [user("hi"), said("yes?"), user("do it")],
        answers=answers,
        prompt=[1, 2, 3],
        tools=[{"type": "function"}],
        user="u1",
        x_new=1,
    )
    await write(journal, (asked, got))
    proxy.drain()
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", asked.event_id)
        tokens = token_records(connection, "acme", asked.event_id)
    assert found is not None
    assert found.o == {"messages": [user("hi"), said("yes?"), user("do it")], "tools": [{"type": "function"}]}
    assert found.a["messages"] == [{"role": "assistant", "content": "done", "tool_calls": None}]
    assert found.h == {"reasoning": ["hm"]}
    assert found.y == {"status": 200, "delivery": "complete", "finish_reasons": ["stop"]}
    assert found.m["engine"] == {"name": "sglang", "version": "0.5.23"} and found.m["usage"] == {"total_tokens": 9}
    assert found.m["request"] == {"model": "tiny", "user": "u1", "x_new": 1} and len(found.subject) == 32
    assert found.m["versions"] == [[["v000000", 0, 3]]]
    assert [tokens[0].prompt_ids, tokens[0].output_ids] == [b"\1\0\0\0\2\0\0\0\3\0\0\0", b"\7\0\0\0\x08\0\0\0\x09\0\0\0"]
    journal.close()


async def test_each_tools_definition_and_what_the_agent_declares_are_part_of_an_events_provenance(proxy: Proxy) -> None:
    def tool(name: str, description: str) -> dict[str, object]:
        return {"type": "function", "function": {"name": name, "description": description}}

    async def provenance(headers: dict[str, str], *tools: object) -> tuple[object, object]:
        asks = {"tools": list(tools)} if tools else {}
        (event_id,) = await stored(proxy, exchange([user("Where is it?")], headers=headers, **asks))
        with proxy.services.database.read() as connection:
            found = find_event(connection, "acme", event_id)
        assert found is not None
        return found.m.get("tools"), found.m.get("retrieval")

    first, _ = await provenance({}, tool("find", "Finds."), tool("send", "Sends."))
    second, snapshot = await provenance({"x-headrace-retrieval": " manuals@41 "}, tool("find", "Finds it."), tool("send", "Sends."))
    assert isinstance(first, dict) and isinstance(second, dict) and list(first) == list(second) == ["find", "send"]
    assert first["find"] != second["find"] and first["send"] == second["send"] and snapshot == "manuals@41"
    assert await provenance({}, {"odd": 1}, "odder") == ({"0": ANY, "1": ANY}, None)
    assert await provenance({}) == (None, None)


async def test_messages_that_are_resent_every_turn_are_stored_once(proxy: Proxy) -> None:
    journal = proxy.journal()
    history = [{"role": "system", "content": "s"}]
    for turn in range(5):
        history.append(user(f"q{turn}"))
        await write(journal, exchange(history, f"a{turn}", started_us=1000 * turn))
        history.append(said(f"a{turn}"))
    proxy.drain()
    assert proxy.count(content) == 11
    journal.close()


async def test_draining_twice_from_the_same_journal_stores_once(proxy: Proxy, tmp_path: Path) -> None:
    journal = proxy.journal(max_segment_bytes=3000)
    await write(
        journal, *(exchange([user(f"q{i} {SECRET_WORD}")], prompt=[1, i]) for i in range(19)), exchange([user(BROKEN_WORD)])
    )
    await write(journal, exchange([user(f"q1 {SECRET_WORD}"), said("ok"), user("go on")], started_us=2_000_000))
    journal.close()
    shutil.copytree(proxy.data_dir / "journal", tmp_path / "copy")
    assert proxy.drain() == 21
    before = [proxy.rows(select(table)) for table in TABLES]
    shutil.copytree(tmp_path / "copy", proxy.data_dir / "journal", dirs_exist_ok=True)
    proxy.restart()
    assert proxy.drain() == 21
    assert [proxy.rows(select(table)) for table in TABLES] == before and len(before[1]) == 20


async def test_a_drain_that_dies_before_its_commit_starts_over(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(name: str) -> None:
        raise KeyboardInterrupt(name)

    journal = proxy.journal()
    await write(journal, exchange([user("q")], prompt=[1]))
    monkeypatch.setattr("dataproxy.drain.drain.point", die)
    with pytest.raises(KeyboardInterrupt, match="mid_drain"):
        proxy.services.drain.run_once()
    monkeypatch.undo()
    assert proxy.count(event) == 0 and proxy.count(journal_offset) == 0
    proxy.restart()
    assert proxy.drain() == 1 and proxy.count(event) == 1
    journal.close()


async def test_an_open_request_survives_a_restart_of_the_drain(proxy: Proxy) -> None:
    journal = proxy.journal(max_segment_bytes=1)
    asked, got = exchange([user("slow")])
    journal.begin(asked)
    await write(journal, *(exchange([user(f"q{i}")]) for i in range(3)))
    assert proxy.drain() == 3
    proxy.restart()
    proxy.drain()
    assert len(list_segments(proxy.data_dir / "journal")) > 1
    await journal.finish(got)
    proxy.drain()
    assert proxy.count(event) == 4 and proxy.count(quarantine) == 0
    journal.close()
    proxy.drain()
    assert list_segments(proxy.data_dir / "journal") == []


async def test_a_request_whose_gateway_is_gone_closes_as_incomplete_and_never_trains(proxy: Proxy) -> None:
    journal = proxy.journal()
    asked, _ = exchange([user("lost")])
    journal.begin(asked)
    proxy.drain()
    assert proxy.count(event) == 0
    journal.close()
    assert proxy.drain() == 1
    assert proxy.rows(select(event.c.delivery, event.c.event_id)) == [("incomplete", asked.event_id)]
    assert proxy.rows(select(eligibility.c.eligible, eligibility.c.reason)) == [(False, "incomplete")]


async def test_a_drained_segment_loses_its_key_then_its_file_and_an_open_one_stays(proxy: Proxy) -> None:
    journal = proxy.journal(max_segment_bytes=1)
    await write(journal, *(exchange([user(f"q{i}")]) for i in range(4)))
    proxy.drain()
    directory = proxy.data_dir / "journal"
    assert len(list_segments(directory)) == 1 and len(list((directory / "keys").iterdir())) == 1
    journal.close()
    proxy.drain()
    assert [path for path in directory.rglob("*") if path.is_file()] == [] and proxy.count(journal_offset) == 0


async def test_what_cannot_be_redacted_is_sealed_and_the_rest_goes_on(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    journal = proxy.journal()
    bad = exchange([user(f"say {BROKEN_WORD} {SECRET_WORD}")])
    not_json = msgspec.structs.replace(exchange([user("x")])[0], body=b'{"messages": ["' + SECRET_WORD.encode())
    torn_record = exchange([user("x")], engine_record=b'{"v":1,')
    with caplog.at_level(logging.ERROR):
        await write(journal, bad, exchange([user("good")]), torn_record)
        journal.begin(not_json)
        journal.close()
        proxy.drain()
    assert proxy.count(event) == 1
    found = {row.event_id: row for row in proxy.rows(select(quarantine))}
    assert {row.reason for row in found.values()} == {"redaction_not_located", "record_malformed", "request_not_json"}
    row = found[bad[0].event_id]
    assert BROKEN_WORD.encode() not in row.sealed and BROKEN_WORD not in caplog.text and SECRET_WORD not in caplog.text
    halves = open_quarantined(proxy.files.quarantine_private(), row.tenant, row.event_id, row.sealed)
    assert (halves.request, halves.response) == bad


async def test_redacted_values_are_nowhere_on_the_disk_and_their_spans_are(proxy: Proxy) -> None:
    journal = proxy.journal()
    asked, got = exchange([user(f"my word is {SECRET_WORD}")], f"so {SECRET_WORD}", prompt=[1, SECRET_ID, 2], user=SECRET_WORD)
    await write(journal, (asked, got))
    journal.close()
    proxy.drain()
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", asked.event_id)
        tokens = token_records(connection, "acme", asked.event_id)
    assert found is not None and found.o["messages"][0]["content"] == "my word is <PASSWORD_1>"
    paths = {span.path for span in found.spans}
    assert paths == {"/request/messages/0/content", "/response/choices/0/message/content", "/request/user"}
    assert tokens[0].prompt_ids == bytes((1, 0, 0, 0, MASK, 0, 0, 0, 2, 0, 0, 0)) and tokens[0].prompt_altered == b"\0\1\0"
    stored = proxy.everything_at_rest()
    assert b"my word is " in stored and SECRET_WORD.encode() not in stored


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"delivery": "disconnected"}, "disconnected"),
        ({"status": 500}, "http_error"),
        ({"engine_record": record("r", [1], [[2, 3]], logprobs=[[-0.5]])}, "unequal_lengths"),
        ({"engine_record": record("r", [1], [[2]], version="default")}, "unknown_version"),
        ({"engine_record": record("r", [1], [[2]], incomplete="aborted")}, "record_incomplete"),
        ({"engine_record": record("r", [1], [[2]], finish_reason="abort")}, "engine_abort"),
        ({"engine_record": b""}, "no_tokens"),
        ({"prompt": [SECRET_ID] * 5}, "altered"),
    ],
)
async def test_each_reason_against_training_is_on_record(proxy: Proxy, change: dict, reason: str) -> None:  # type: ignore[type-arg]
    journal = proxy.journal()
    await write(journal, exchange([user("q")], **({"prompt": [1, 2, 3]} | change)))
    proxy.drain()
    assert proxy.rows(select(eligibility.c.eligible, eligibility.c.reason)) == [(False, reason)]
    journal.close()


async def test_without_consent_nothing_trains_and_an_agents_own_consent_comes_first(proxy: Proxy) -> None:
    proxy.consent("acme", "private", training=False)
    journal = proxy.journal()
    await write(journal, exchange([user("q")], prompt=[1], tenant="nobody"), exchange([user("q")], prompt=[1], agent="private"))
    await write(journal, exchange([user("q")], prompt=[1]))
    proxy.drain()
    assert [row.reason for row in proxy.rows(select(eligibility).order_by(eligibility.c.event_id))] == [
        "no_consent",
        "no_consent",
        "eligible",
    ]
    journal.close()


async def test_a_retry_is_linked_to_the_first_attempt_and_only_one_trains(proxy: Proxy) -> None:
    journal = proxy.journal()
    first, second = exchange([user("q")], prompt=[1]), exchange([user("q")], prompt=[1], headers={"x-stainless-retry-count": "1"})
    best_of = exchange([user("q")], prompt=[1])
    await write(journal, first, second, best_of)
    proxy.drain()
    decisions = {row.event_id: row.reason for row in proxy.rows(select(eligibility))}
    assert [decisions[pair[0].event_id] for pair in (first, second, best_of)] == ["eligible", "duplicate", "eligible"]
    with proxy.services.database.read() as connection:
        events = {item.event_id: item for _, item in list_events(connection, "acme", 10, 0, None, None)}
    assert events[second[0].event_id].parent_id == first[0].event_id
    assert events[second[0].event_id].trajectory_id == events[first[0].event_id].trajectory_id
    assert events[best_of[0].event_id].trajectory_id != events[first[0].event_id].trajectory_id
    journal.close()


async def test_damage_inside_a_closed_segment_is_set_aside_and_reported(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    journal = proxy.journal()
    await write(journal, exchange([user("q1")]), exchange([user("q2")]))
    journal.close()
    segment = list_segments(proxy.data_dir / "journal")[0].segment
    stored = bytearray(segment.read_bytes())
    stored[-10] ^= 1
    segment.write_bytes(stored)
    with caplog.at_level(logging.ERROR):
        proxy.drain()
    assert [row.delivery for row in proxy.rows(select(event))] == ["complete"]
    assert (segment.parent / "damaged" / segment.name).exists() and "damaged" in caplog.text


async def test_the_backlog_is_empty_only_when_everything_is_committed(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    drain, journal = proxy.services.drain, proxy.journal()
    assert drain.backlog_bytes() == 0
    await write(journal, exchange([user("q")], prompt=[1]))
    assert drain.backlog_bytes() > 0
    seen: dict[str, int] = {}
    monkeypatch.setattr("dataproxy.drain.drain.point", lambda name: seen.update({name: drain.backlog_bytes()}))
    drain.run_once()
    assert seen["dataproxy.mid_drain"] > 0
    assert drain.backlog_bytes() == 0
    journal.close()


async def test_an_agent_cannot_keep_its_call_off_the_record_by_taking_its_id(proxy: Proxy) -> None:
    journal = proxy.journal()
    mine, other = exchange([user("mine")], prompt=[1]), exchange([user("theirs")], prompt=[2])
    for (asked, _), owner in ((mine, "acme"), (other, "elsewhere")):  # an id of another tenant's event stands in nobody's way
        named = {"event_id": asked.event_id, "tenant": owner, "agent": "triage", "kind": "tool_call", "boundary": "api"}
        claimed = Event(**named, started_at=1, ended_at=2)
        with proxy.services.database.write() as connection:
            insert_events(connection, [(StoredEvent(claimed), None)], next_position(connection))
    await write(journal, mine, other)
    proxy.drain()
    assert [(row.event_id, row.reason) for row in proxy.rows(select(quarantine))] == [(mine[0].event_id, "id_taken")]
    calls = select(event.c.tenant, event.c.event_id).where(event.c.kind == "model_call")
    assert proxy.rows(calls) == [("acme", other[0].event_id)]
    await write(journal, mine, other)  # as after a crash
    proxy.restart()
    proxy.drain()
    assert proxy.count(quarantine) == 1 and len(proxy.rows(calls)) == 1
    journal.close()


async def test_a_store_that_is_away_while_calls_are_governed_sends_none_to_the_quarantine(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, stop, of = proxy.journal(), threading.Event(), proxy.services.redactors.of
    await write(journal, exchange([user("q")]), exchange([user("r")]))
    asked: list[str] = []

    def away_at_first(tenant: str) -> Redactor:
        asked.append(tenant)
        if len(asked) == 1:
            raise OperationalError("SELECT", {}, Exception("the server closed the connection"))
        return of(tenant)

    monkeypatch.setattr(proxy.services.redactors, "of", away_at_first)
    drain = threading.Thread(target=proxy.services.drain.run, args=(stop,))
    drain.start()
    while proxy.count(event) < 2 and not proxy.count(quarantine):
        time.sleep(0.02)  # noqa: ASYNC251  the drain is a thread
    stop.set()
    drain.join()
    journal.close()
    assert len(asked) > 1 and proxy.count(event) == 2 and proxy.count(quarantine) == 0
