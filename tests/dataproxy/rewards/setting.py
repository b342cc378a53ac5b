"""An agent's conversation in the store, and what its built-in sources make of it."""

from typing import Any

from sqlalchemy import select

from dataproxy.client.reward_types import AgentChange, JudgeSettings, Sources
from dataproxy.rewards.sources import sweep
from dataproxy.store.agents import set_rule
from dataproxy.store.schema import judgement, reward
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.proxy import Proxy

JUDGE = JudgeSettings("http://judge.test/v1", "tiny-judge", votes=3, timeout_s=20.0, usd_in=2.0, usd_out=10.0)


def rules(proxy: Proxy, agent: str = "triage", **sources: Any) -> None:
    """Switch sources of an agent on."""
    with proxy.services.database.write() as connection:
        set_rule(connection, AgentChange("acme", agent, sources=Sources(**sources)), proxy.clock())


async def stored(proxy: Proxy, *pairs: Any) -> list[str]:
    """Store exchanges; gives their event ids."""
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()
    return [pair[0].event_id for pair in pairs]


async def known(proxy: Proxy) -> None:
    """Let triage be an agent that there is."""
    await stored(proxy, exchange([user("before anything was switched on")]))


def looked(proxy: Proxy) -> int:
    """Look until nothing is left."""
    total = 0
    while found := sweep(proxy.services.database, proxy.clock):
        total += found
    return total


def given(proxy: Proxy) -> list[tuple[Any, ...]]:
    """(kind, target, name, value, source) of every reward."""
    columns = (reward.c.target_kind, reward.c.target_id, reward.c.name, reward.c.value, reward.c.source)
    return [tuple(row) for row in proxy.rows(select(*columns).order_by(reward.c.received_us, reward.c.target_id, reward.c.name))]


def judged(proxy: Proxy) -> list[tuple[Any, ...]]:
    """(event, state, attempts) of every judgement."""
    columns = (judgement.c.event_id, judgement.c.state, judgement.c.attempts)
    return [tuple(row) for row in proxy.rows(select(*columns).order_by(judgement.c.event_id))]


def talk(*texts: str, prompt: bool = True) -> list[Any]:
    """A conversation, a call for each text of the user; the n-th answer is ``answer n``."""
    pairs, history = [], []
    for number, text in enumerate(texts):
        history.append(user(text))
        ids = [1, *range(10, 10 + number)]
        pairs.append(
            exchange(list(history), f"answer {number}", prompt=ids if prompt else None, started_us=1_000_000 * (number + 1))
        )
        history.append(said(f"answer {number}"))
    return pairs


def tool_turn(result: str, name: str = "run", **mark: Any) -> list[Any]:
    """A call that asks for a tool, and the one that brings its result."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    back = {"role": "tool", "tool_call_id": "c1", "content": result, **mark}
    first = exchange([user("do it")], answers=[answer], prompt=[1], session="s")
    second = exchange([user("do it"), answer, back], "done", prompt=[1, 2], session="s", started_us=2_000_000)
    return [first, second]
