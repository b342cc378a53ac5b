"""Lists of trajectories on either database: pages miss nothing and repeat nothing, filters look at what events say."""

import pytest

from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.store import trajectories
from dataproxy.store.review import review_of
from dataproxy.store.trajectories import list_trajectories
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import SECRET_WORD, Proxy

_NUM = 7


@pytest.fixture
async def filled(proxy: Proxy) -> Proxy:
    """Seven conversations; every other one names a secret, and two began at the same moment."""
    journal = proxy.journal()
    for i in range(_NUM):
        text = f"Question {i} {SECRET_WORD if i % 2 else ''}"
        await write(journal, exchange([user(text)], session=f"s-{i}", prompt=[i + 1, 2], started_us=1_000_000 * max(i, 1)))
    proxy.drain()
    journal.close()
    return proxy


def pages(proxy: Proxy, query: TrajectoryQuery, limit: int, sessions: tuple[str, ...] = ()) -> list[str]:
    """What all pages say of how each trajectory began."""
    found, after = [], ""
    for _ in range(50):
        with proxy.services.database.read() as connection:
            page = list_trajectories(connection, "acme", query, sessions, after, limit)
        found += [row.opening for row in page.rows]
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pages_together_are_all_newest_first(filled: Proxy, limit: int) -> None:
    found = pages(filled, TrajectoryQuery(), limit)
    assert (
        len(set(found)) == _NUM
        and found[0].startswith("Question 6")
        and {found[-1][:10], found[-2][:10]} == {"Question 0", "Question 1"}
    )


@pytest.mark.parametrize("looked_at", [1, 4, 1000])
def test_a_rare_thing_is_found_over_as_many_pages_as_it_takes(
    filled: Proxy, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(trajectories, "_CHUNK", 2)
    monkeypatch.setattr(trajectories, "MOST_READ", looked_at)
    assert pages(filled, TrajectoryQuery(text="QUESTION 2"), 5) == ["Question 2"]
    assert len(pages(filled, TrajectoryQuery(kind="PASSWORD"), 2)) == 3


def test_filters_by_column_and_by_decision(filled: Proxy) -> None:
    assert len(pages(filled, TrajectoryQuery(since_us=3_000_000, until_us=5_000_000), 50)) == 2
    assert len(pages(filled, TrajectoryQuery(agent="triage", model="tiny", outcome="ok", rewarded=False), 50)) == _NUM
    assert pages(filled, TrajectoryQuery(agent="nobody"), 50) == pages(filled, TrajectoryQuery(reason="no_such"), 50) == []
    assert len(pages(filled, TrajectoryQuery(reason="eligible"), 2)) == _NUM
    session = filled.services.digests("acme").of(b"session", b"s-3").hex()
    assert pages(filled, TrajectoryQuery(session="s-3"), 50, ("s-3", f"digest-{session}")) == ["Question 3 <PASSWORD_1>"]


def test_a_review_is_read_in_pages(filled: Proxy) -> None:
    with filled.services.database.read() as connection:
        name = list_trajectories(connection, "acme", TrajectoryQuery(), (), "", 1).rows[0].trajectory_id
        review = review_of(connection, "acme", name, 0, 10)
    assert (len(review.events), review.next_from, review.reward, len(review.decisions)) == (1, None, None, 1)
