"""A store with something on every page of the console: a support agent with tools, branches, rewards, versions, hostile words."""

from sqlalchemy import select

from atdp.samples import BatchManifest
from atdp.versions import PolicyVersion, version_name
from dataproxy.capture import Journal
from dataproxy.client.types import Feedback
from dataproxy.feedback import Desk, give_feedback
from dataproxy.ledger.rows import append_rows
from dataproxy.store.schema import event, lease, training_use, trajectory
from dataproxy.store.versions import register_version, store_batch
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.proxy import BROKEN_WORD, SECRET_ID, SECRET_WORD, UNSURE_WORD, Proxy

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)> {{7*7}} ${7*7} \x1b[31mred\x1b[0m \u202egnp.exe\u202c "
    "\u200b</span></section><style>body{display:none}</style>"
)
_FIND_ORDER = {"type": "function", "function": {"name": "find_order", "description": "Finds an order by its number."}}
RELEASED = {"x-headrace-release": "shop-2026.11", "x-headrace-retrieval": "manuals@41"}
NOW_US = 1_780_000_000_000_000
_MINUTE_US = 60_000_000
BATCH = "batch-4"
_RESULT = '{"state": "shipped", "carrier": "DHL", "door code": "' + SECRET_WORD + '"}'
_SYSTEM = {"role": "system", "content": "You help customers of a bicycle shop. Look orders up before you answer."}


def call(identifier: str, name: str, arguments: str) -> dict[str, object]:
    """A tool call as an assistant's message."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": identifier, "type": "function", "function": function}]}


async def tell(proxy: Proxy) -> dict[str, str]:
    """Fill the store of ``proxy``; gives the trajectory of each part of the story by its name, and ``unsure``, an event."""
    journal = proxy.journal()
    started = {}
    for i, tell_one in enumerate((_orders, _hostile, _failed, _quarantined)):
        proxy.clock.now_us = NOW_US + i * 10 * _MINUTE_US
        started[tell_one.__name__[1:]] = await tell_one(journal, proxy.clock.now_us)
        proxy.drain()
    journal.close()
    proxy.clock.now_us = NOW_US + 60 * _MINUTE_US
    names = {name: _trajectory_at(proxy, at) for name, at in started.items() if name != "quarantined"}
    names["unsure"] = str(proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == names["failed"]))[0][0])
    _reward(proxy, names["orders"])
    _publish(proxy, names["orders"])
    proxy.services.checkpoints.cut()
    return names


async def _orders(journal: Journal, at: int) -> int:
    first = [_SYSTEM, user(f"Where is my order 1042? My password is {SECRET_WORD}, mail me.")]
    looked = call("call_1", "find_order", '{"order": 1042, "mail": "' + SECRET_WORD + '"}')
    second = [*first, looked, {"role": "tool", "tool_call_id": "call_1", "content": _RESULT}]
    third = [*second, said("It was shipped by DHL yesterday."), user("שלום, when does it come? 明天?")]
    prompt, outputs = [1, 2, SECRET_ID, 4], [[7, 8, SECRET_ID, 9, 11, 12]]
    await write(
        journal,
        exchange(
            first,
            session="shop-1",
            prompt=prompt,
            outputs=outputs,
            started_us=at,
            ended_us=at + 180_000,
            answers=[looked],
            headers=RELEASED,
            tools=[_FIND_ORDER],
        ),
        exchange(
            second,
            "It was shipped by DHL yesterday.",
            session="shop-1",
            prompt=[1, 2, SECRET_ID, 4, 7, 8, SECRET_ID, 9, 11, 12, 13],
            started_us=at + 2_000_000,
            ended_us=at + 2_400_000,
        ),
        exchange(
            third,
            session="shop-1",
            prompt=[1, 2, SECRET_ID, 4, 7, 8, SECRET_ID, 9, 11, 12, 13, 7, 8, 9, 21],
            started_us=at + 9_000_000,
            ended_us=at + 9_700_000,
            answers=[
                {
                    "role": "assistant",
                    "content": "Tomorrow before noon.",
                    "reasoning_content": "DHL takes two days; it left yesterday.",
                }
            ],
        ),
    )
    return at


async def _hostile(journal: Journal, at: int) -> int:
    long_line = "A" * 1_000_000
    odd = {
        "role": "<b>boss</b>",
        "content": [{"type": "text", "text": HOSTILE}, {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}}],
    }
    await write(
        journal,
        exchange(
            [user(HOSTILE), odd, user(long_line)],
            HOSTILE,
            agent="crawler",
            session="crawl-1",
            prompt=[5, 6],
            started_us=at,
            ended_us=at + 50_000,
        ),
    )
    return at


async def _failed(journal: Journal, at: int) -> int:
    await write(
        journal,
        exchange([user(f"Cancel order 77 of {UNSURE_WORD}.")], agent="crawler", session="crawl-2", started_us=at, status=500),
    )
    return at


async def _quarantined(journal: Journal, at: int) -> int:
    await write(journal, exchange([user(BROKEN_WORD)], session="shop-9", prompt=[1], started_us=at))
    return at


def _trajectory_at(proxy: Proxy, at: int) -> str:
    return str(proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.started_us == at))[0][0])


def _reward(proxy: Proxy, name: str) -> None:
    services = proxy.services
    desk = Desk("acme", services.mac_secret, services.digests("acme"))
    last = proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == name).order_by(event.c.seq.desc()))[0][0]
    given = (
        Feedback(last, value=0.5, name="helpful", source="judge", explanation="the date was asked for"),
        Feedback(name, value=1.0, name="solved", source="user", explanation=f"thank you {HOSTILE}"),
        Feedback(name, correction="Tomorrow, between 9 and 12.", source="human"),
    )
    for i, item in enumerate(given):
        with services.database.write() as connection:
            give_feedback(connection, desk, item, "key-judge", NOW_US + (60 + 7 * i) * _MINUTE_US)


def _publish(proxy: Proxy, name: str) -> None:
    parents, now_us = [None, 0, 1, 1, 3], NOW_US + 90 * _MINUTE_US
    states = ["retired", "retired", "retired", "retired", "serving"]
    with proxy.services.database.write() as connection:
        for i, (parent, state) in enumerate(zip(parents, states, strict=True)):
            metrics = {"loss": 0.9 - 0.1 * i, "kl": 0.01 * i, "entropy": 2.0 - 0.2 * i, "reward_mean": 0.05 * i}
            version = PolicyVersion(
                version_name(i),
                version_name(parent) if parent is not None else None,
                state,
                NOW_US + i * _MINUTE_US,
                "v",
                batch_id=BATCH if i == 4 else None,
                metrics=metrics,
            )  # type: ignore[arg-type]
            register_version(connection, version, "internal", NOW_US + i * _MINUTE_US)
        ids = {"tenant": "", "lease_id": "lease-1", "key_id": "key-t"}
        connection.execute(lease.insert().values(ids | {"state": "trained", "created_us": now_us, "deadline_us": now_us}))
        manifest = BatchManifest(
            BATCH, "lease-1", version_name(3), version_name(4), now_us, [name], {name: 1.5}, now_us, {"stale": 2}, {"clip_low": 0.2}
        )
        store_batch(connection, manifest)
        used = {
            "tenant": "acme",
            "trajectory_id": name,
            "version": version_name(4),
            "lease_id": "lease-1",
            "vaulted": False,
            "used_us": NOW_US,
        }
        connection.execute(training_use.insert().values(used))
        connection.execute(trajectory.update().where(trajectory.c.trajectory_id == name).values(times_trained=1))
        append_rows(connection, training_use, [used])
