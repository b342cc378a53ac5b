"""Feedback: targets found inside the tenant, pending until the exchange is stored, idempotent, redacted."""

import json
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from dataproxy.client.types import Feedback, FeedbackReceipt
from dataproxy.errors import NotFound, Refused
from dataproxy.feedback import Desk, decode_feedback, give_feedback, redact_feedback
from dataproxy.store.schema import dead_letter, pending_reward, reward, trajectory
from tests.dataproxy.exchanges import MAC_SECRET, exchange, said, user, write
from tests.dataproxy.proxy import Proxy, WordRedactor


def give(proxy: Proxy, target: str, tenant: str = "acme", value: float | None = 1.0, **more: Any) -> FeedbackReceipt:
    with proxy.services.database.write() as connection:
        desk = Desk(tenant, MAC_SECRET, proxy.services.digests(tenant))
        item = redact_feedback(Feedback(target, value, **more), lambda text: WordRedactor().redact_text(text).text)
        return give_feedback(connection, desk, item, "key-1", proxy.clock())


async def store(proxy: Proxy, *pairs: Any) -> None:
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()


async def test_every_kind_of_target_rewards_its_trajectory(proxy: Proxy) -> None:
    pair = exchange([user("q")], session="case-7")
    await store(proxy, pair)
    trajectory_id = f"tr-{pair[0].event_id}"
    kinds = [give(proxy, target).target_kind for target in (pair[0].completion_id, pair[0].event_id, trajectory_id, "case-7")]
    assert kinds == ["event", "event", "trajectory", "session"]
    assert {row.trajectory_id for row in proxy.rows(select(reward))} == {trajectory_id}
    assert proxy.rows(select(trajectory.c.num_rewards)) == [(4,)]


async def test_a_reward_that_comes_before_its_exchange_waits_through_a_restart(proxy: Proxy) -> None:
    pair = exchange([user("q")])
    receipt = give(proxy, pair[0].completion_id, value=0.5, idempotency_key="once")
    assert receipt.status == "pending" and give(proxy, pair[0].completion_id, idempotency_key="once") == receipt
    proxy.restart()
    await store(proxy, pair)
    assert proxy.count(pending_reward) == 0
    assert proxy.rows(select(reward.c.reward_id, reward.c.value)) == [(receipt.reward_id, 0.5)]
    assert proxy.rows(select(trajectory.c.num_rewards)) == [(1,)]
    again = give(proxy, pair[0].completion_id, idempotency_key="once")
    assert (again.reward_id, again.status) == (receipt.reward_id, "stored")


async def test_a_reward_whose_exchange_never_comes_ends_as_a_dead_letter(proxy: Proxy) -> None:
    give(proxy, exchange([user("q")])[0].completion_id)
    proxy.clock.advance(86_000)
    proxy.drain()
    assert proxy.count(dead_letter) == 0
    proxy.clock.advance(500)
    proxy.drain()
    assert proxy.count(dead_letter) == 1 and proxy.count(pending_reward) == 0


async def test_forged_unknown_and_foreign_targets_all_look_alike(proxy: Proxy) -> None:
    pair = exchange([user("q")], session="case-7")
    await store(proxy, pair)
    forged = pair[0].completion_id[:-1] + ("0" if pair[0].completion_id[-1] != "0" else "1")
    for target in (forged, "chatcmpl-x", "no such session", "f" * 32, ""):
        with pytest.raises(NotFound):
            give(proxy, target)
    for target in (pair[0].completion_id, pair[0].event_id, f"tr-{pair[0].event_id}", "case-7"):
        with pytest.raises(NotFound):
            give(proxy, target, tenant="other")
    assert proxy.count(reward) == 0 == proxy.count(pending_reward)


async def test_an_inferred_session_name_works_while_it_names_one_conversation(proxy: Proxy) -> None:
    await store(proxy, exchange([user("q")], "a"))
    assert give(proxy, "inferred-00").target_kind == "session"
    await store(proxy, exchange([user("q")], "b"))
    with pytest.raises(Refused, match="several conversations"):
        give(proxy, "inferred-00")


async def test_labels_and_corrections_are_kept_redacted_and_train_nothing_by_themselves(proxy: Proxy) -> None:
    pair = exchange([user("q")])
    await store(proxy, pair)
    give(proxy, pair[0].event_id, value=None, label="wrong", correction="say hunter2", explanation="hunter2 leaked", source="human")
    row = proxy.rows(select(reward))[0]
    assert (row.label, row.correction, row.explanation) == ("wrong", "say <PASSWORD_1>", "<PASSWORD_1> leaked")
    assert proxy.rows(select(trajectory.c.num_rewards)) == [(0,)] and b"hunter2" not in proxy.everything_at_rest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": None}, "say something"),
        ({"value": float("nan")}, "number from"),
        ({"value": 1e308}, "number from"),
        ({"name": "a\0b"}, "printable"),
        ({"source": "nobody"}, "must be one of"),
        ({"name": ""}, "1 to 64"),
        ({"supersedes": "rw-unknown"}, "earlier reward"),
    ],
)
async def test_bad_feedback_says_what_to_do(proxy: Proxy, change: dict[str, Any], message: str) -> None:
    pair = exchange([user("q")])
    await store(proxy, pair)
    with pytest.raises(Refused, match=message):
        give(proxy, pair[0].event_id, **change)


@pytest.mark.parametrize("name", ["label", "correction", "explanation", "target"])
def test_a_text_too_long_to_redact_in_time_is_refused_before_it_is_tried(name: str) -> None:
    with pytest.raises(Refused, match=f"`{name}` must have at most 65,536"):
        decode_feedback(json.dumps({"target": "t", "value": 1, name: "x" * 70_000}).encode())


async def test_a_reward_touches_only_its_own_conversation(proxy: Proxy) -> None:
    one, other = exchange([user("q")], "a"), exchange([user("q")], "b")
    follow = exchange([user("q"), said("a"), user("r")], started_us=2_000_000)
    await store(proxy, one, other, follow)
    give(proxy, follow[0].completion_id)
    counts = dict(tuple(row) for row in proxy.rows(select(trajectory.c.trajectory_id, trajectory.c.num_rewards)))
    assert counts == {f"tr-{one[0].event_id}": 1, f"tr-{other[0].event_id}": 0}


@pytest.mark.parametrize(
    "statement", ["UPDATE reward SET value = 0", "DELETE FROM reward", "UPDATE event SET kind = 'x'", "DELETE FROM event"]
)
async def test_events_and_rewards_cannot_be_changed_by_anybody(proxy: Proxy, statement: str) -> None:
    pair = exchange([user("q")])
    await store(proxy, pair)
    give(proxy, pair[0].event_id)
    with pytest.raises(IntegrityError, match="append-only"), proxy.services.database.write() as connection:
        connection.execute(text(statement))
