"""Filters by what went wrong, by who answered, and by release find what they say, and nothing else."""

import asyncio
import re

import pytest
from msgspec import structs
from sqlalchemy import select

from dataproxy.store.schema import trajectory
from tests.console.conftest import Stage
from tests.console.story import call
from tests.dataproxy.exchanges import exchange, record, said, user, write
from tests.dataproxy.proxy import Proxy

pytestmark = pytest.mark.slow
_AGENT = "mender"
_PARTS = ("tool failed", "hung up", "lost", "canary", "both lanes", "two versions", "released")


@pytest.fixture(scope="module")
def told(stage: Stage) -> dict[str, str]:
    """A trajectory each of what goes by these names, all of one agent."""
    now_us = stage.proxy.clock()
    asyncio.run(_tell(stage.proxy, now_us))
    rows = stage.proxy.rows(select(trajectory.c.started_us, trajectory.c.trajectory_id).where(trajectory.c.agent == _AGENT))
    at = dict(rows)
    return {name: at[now_us + i] for i, name in enumerate(_PARTS)}


async def _tell(proxy: Proxy, now_us: int) -> None:
    journal = proxy.journal()
    asked = [user("Mend it."), call("call_1", "find_parts", "{}")]
    failed = [*asked, {"role": "tool", "tool_call_id": "call_1", "content": "Error: no such part"}]

    def one(name: str, messages: list[object], after: int = 0, **more: object):  # type: ignore[no-untyped-def]  # both halves
        at = now_us + _PARTS.index(name) + after
        return exchange(messages, "Done.", agent=_AGENT, session=name, started_us=at, ended_us=at + 1, **more)  # type: ignore[arg-type]

    def answered_by(version: str, name: str, messages: list[object], after: int, prompt: list[int]):  # type: ignore[no-untyped-def]
        half, got = one(name, messages, after)
        return half, structs.replace(got, record=record(half.completion_id, prompt, [[7]], version=version))

    again = [user("Mend it."), said("Done."), user("And that.")]
    first, other = one("canary", [user("Mend it.")]), one("both lanes", again, 9)
    await write(
        journal,
        one("tool failed", failed),
        one("hung up", [user("Mend it.")], delivery="disconnected"),
        (first[0], structs.replace(first[1], lane="canary")),
        one("both lanes", [user("Mend it.")]),
        (other[0], structs.replace(other[1], lane="canary")),
        answered_by("v000003", "two versions", [user("Mend it.")], 0, [41]),
        answered_by("v000004", "two versions", again, 9, [41, 7, 42]),
        one("released", [user("Mend it.")], headers={"x-headrace-release": "shop-2026.12"}),
    )
    journal.begin(one("lost", [user("Mend it.")])[0])
    journal.close()
    proxy.drain()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("agent=mender", set(_PARTS)),
        ("error=tool", {"tool failed"}),
        ("tool=find_parts", {"tool failed"}),
        ("error=disconnected", {"hung up"}),
        ("error=incomplete", {"lost"}),
        ("lane=canary", {"canary"}),
        ("lane=mixed", {"both lanes"}),
        ("release=shop-2026.12", {"released"}),
        ("version=v000004", {"two versions"}),
        ("version=v000003", set()),  # its last turn was another's
    ],
)
def test_what_went_wrong_who_answered_and_which_release_it_was_are_found(
    stage: Stage, told: dict[str, str], query: str, found: set[str]
) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories?{query}")
    shown = set(re.findall(r'href="/console/trajectories/([^"?/]+)"', browser.page))
    assert shown == {told[name] for name in found}


def test_the_filter_says_that_a_version_is_the_last_turns(stage: Stage, told: dict[str, str]) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{told['two versions']}")
    assert "v000003" in browser.text and "v000004" in browser.text
    browser.get("/trajectories")
    assert re.search(r'Version of the last turn <input name="version"', browser.page)
