"""The alarms' rules at and around their thresholds, and what they look at in a store."""

import pytest

from atdp.versions import PolicyVersion
from dataproxy.alarms.file import AlarmFile
from dataproxy.alarms.rules import Facts, alarms_of
from dataproxy.alarms.watch import exposition, look
from dataproxy.client.types import Feedback
from dataproxy.client.watch_types import VersionOutcome
from dataproxy.feedback import Desk, give_feedback
from dataproxy.store.version_outcomes import version_outcomes
from tests.dataproxy.exchanges import MAC_SECRET, exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy

NOW_US = 1_780_000_000_000_000


def firing(**facts: object) -> set[str]:
    return {alarm.name for alarm in alarms_of(Facts(**({"outcomes": [], "versions": []} | facts)))}.difference(  # type: ignore[arg-type]
        alarm.name
        for alarm in alarms_of(Facts(**({"outcomes": [], "versions": []} | facts)))  # type: ignore[arg-type]
        if not alarm.firing
    )


def outcome(name: str, mean: float, num: int = 100, deviation: float = 0.4) -> VersionOutcome:
    return VersionOutcome(name, num, num, mean, deviation, mean)


def test_nothing_known_fires_nothing_and_says_so() -> None:
    assert firing() == set()
    assert all(alarm.value is None or alarm.value == 0 for alarm in alarms_of(Facts([], [])))


@pytest.mark.parametrize(
    ("before", "now", "fires"),
    [
        (outcome("v000001", 0.8), outcome("v000002", 0.5), True),
        (outcome("v000001", 0.8), outcome("v000002", 0.75), False),  # within the noise
        (outcome("v000001", 0.8), outcome("v000002", 0.1, num=19), False),  # too few
        (outcome("v000001", 0.2), outcome("v000002", 0.9), False),
        (outcome("v000001", 1.0, deviation=0.0), outcome("v000002", 0.0, deviation=0.0), True),
    ],
)
def test_a_reward_drop_is_one_beyond_the_noise(before: VersionOutcome, now: VersionOutcome, fires: bool) -> None:
    assert firing(outcomes=[before, now]) == ({"reward_drop"} if fires else set())


@pytest.mark.parametrize(("nats", "fires"), [(0.02, False), (0.1, False), (0.11, True), (float("nan"), True)])
def test_a_mismatch_of_the_last_step_fires(nats: float, fires: bool) -> None:
    versions = [
        PolicyVersion(f"v{i:06d}", None, "retired", i, "", metrics={"logprob_diff_median": x}) for i, x in ((1, 9.0), (2, nats))
    ]
    assert firing(versions=versions) == ({"mismatch"} if fires else set())


@pytest.mark.parametrize(
    ("recent", "fires"),
    [
        ({"all": 99, "rewarded": 99, "waiting": 20, "stale": 10}, set()),
        ({"all": 99, "rewarded": 99, "waiting": 20, "stale": 11}, {"stale"}),
        ({"all": 99, "rewarded": 19, "waiting": 19, "stale": 19}, set()),
        ({"all": 100, "rewarded": 0, "waiting": 0, "stale": 0}, {"starvation"}),
        ({"all": 100, "rewarded": 9, "waiting": 0, "stale": 0, "trained": 1}, set()),
    ],
)
def test_waiting_too_long_and_starving_fire(recent: dict[str, int], fires: set[str]) -> None:
    assert firing(recent=recent) == fires


async def test_the_store_is_looked_at_a_tenant_at_a_time_and_written_for_prometheus(tmp_path) -> None:  # type: ignore[no-untyped-def]
    proxy = Proxy(tmp_path, Clock(NOW_US))
    for owner in ("acme", "other"):
        proxy.consent(owner)
    journal = proxy.journal()
    for i in range(4):
        where = {"tenant": "acme" if i else "other", "session": f"s-{i}", "started_us": NOW_US - 1_000_000, "ended_us": NOW_US}
        await write(journal, exchange([user(f"hello {i}")], prompt=[1, i], **where))
    journal.close()
    proxy.drain()
    with proxy.services.database.write() as connection:
        desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
        for name, value in (("s-1", 1.0), ("s-2", 0.0)):
            give_feedback(connection, desk, Feedback(name, value), "key-1", NOW_US)
    with proxy.services.database.read() as connection:
        mine, all_of_it = look(connection, "acme", NOW_US), look(connection, None, NOW_US)
        (found,) = version_outcomes(connection, "acme")
        assert version_outcomes(connection, "other") == [] and version_outcomes(connection, None, among=(7,)) == []
    assert (found.version, found.num, found.mean, found.success) == ("v000000", 2, 0.5, 0.5)
    details = [next(alarm.detail for alarm in one if alarm.name == "starvation") for one in (mine, all_of_it)]
    assert details == ["3 ended: 2 rewarded, 2 wait, 0 trained on.", "4 ended: 2 rewarded, 2 wait, 0 trained on."]
    assert 'headrace_alarm{name="starvation"} 0' in exposition(mine)
    file = AlarmFile(proxy.services)
    file.write()
    assert "headrace_journal_backlog_bytes 0" in file.path.read_text()
    file.path.unlink()
    file.write()  # not yet again
    assert not file.path.exists()
    proxy.services.database.close()
