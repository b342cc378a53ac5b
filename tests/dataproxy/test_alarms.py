"""The alarms' rules at and around their thresholds, and what they look at in a store."""

import pytest

from atdp.versions import PolicyVersion
from dataproxy.alarms.file import AlarmFile
from dataproxy.alarms.rules import Facts, alarms_of
from dataproxy.alarms.watch import exposition, look
from dataproxy.client.types import Feedback
from dataproxy.client.watch_types import Alarm, VersionOutcome
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


def made(index: int, **metrics: float) -> PolicyVersion:
    return PolicyVersion(
        f"v{index:06d}", f"v{index - 1:06d}" if index else None, "retired", NOW_US + index * 60_000_000, "", metrics=metrics
    )


def alarm(name: str, **facts: object) -> Alarm:
    known = {"outcomes": [], "versions": [], "since_us": NOW_US} | facts
    return next(one for one in alarms_of(Facts(**known)) if one.name == name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recent", "why", "todo"),
    [
        ({"all": 40}, "None of them may train.", "each turn says why"),
        ({"all": 40, "eligible": 9}, "None of them is rewarded.", "POST /v1/feedback"),
        ({"all": 40, "eligible": 9, "rewarded": 7}, "None that may train is rewarded.", "Reward those that may train"),
        ({"all": 40, "eligible": 9, "rewarded": 7, "waiting": 5}, "No step took those that wait.", "whether a trainer runs"),
    ],
)
@pytest.mark.parametrize("times", [1, 5])
def test_where_nothing_was_trained_it_is_never_quiet_and_says_why_since_when_and_what_to_do(
    recent: dict[str, int], why: str, todo: str, times: int
) -> None:
    recent = {name: num * times for name, num in recent.items()}
    found = alarm("starvation", recent=recent, versions=[made(0), made(1), made(2)])
    assert (found.firing, found.value) == ((True, 200.0) if times == 5 else (False, None))
    assert found.detail.startswith(f"{recent['all']} began since 2026-05-28 20:26 UTC: {recent.get('eligible', 0)} may train, ")
    assert f"The newest version that learned was made 2026-05-28 20:28 UTC. {why}" in found.detail and todo in found.todo


def test_where_some_was_trained_or_nothing_began_there_is_nothing_to_do() -> None:
    trained = alarm("starvation", recent={"all": 200, "eligible": 100, "rewarded": 90, "waiting": 9, "trained": 1})
    assert (trained.firing, trained.value, trained.todo) == (False, 0.0, "") and "1 trained on." in trained.detail
    nothing = alarm("starvation")
    assert (nothing.value, nothing.detail, nothing.todo) == (None, "No trajectory began since 2026-05-28 20:26 UTC.", "")


def test_a_mismatch_says_with_which_version_it_began() -> None:
    versions = [made(i, logprob_diff_median=nats) for i, nats in enumerate((0.5, 0.02, 0.3, 0.4))]
    found = alarm("mismatch", versions=versions)
    assert found.firing and "It is above since v000002, made 2026-05-28 20:28 UTC." in found.detail and "checksum" in found.todo
    assert alarm("mismatch", versions=versions[:2]).todo == ""


def test_a_mismatch_that_the_newest_steps_did_not_measure_says_so() -> None:
    versions = [made(0, logprob_diff_median=0.02), made(1), made(2)]
    assert "v000000: 0.02 nats. 2 made since had no token" in alarm("mismatch", versions=versions).detail
    assert "since" not in alarm("mismatch", versions=versions[:1]).detail


def test_a_drop_says_what_was_compared_in_whole_words_when_the_version_was_made_and_how_to_return() -> None:
    outcomes = [outcome("v000001", 0.8), outcome("v000002", 0.0, num=84)]
    found = alarm("reward_drop", outcomes=outcomes, versions=[made(1), made(2)])
    assert found.detail == (
        "Under v000002, made 2026-05-28 20:28 UTC, the mean reward is 0 over 84 rewarded trajectories; under v000001, with which "
        "it is compared, it is 0.8 over 100. The newer is lower by 0.8, 13.5 standard errors."
    )
    assert "headrace rollback v000001" in found.todo
    better = alarm("reward_drop", outcomes=[outcome("v000001", 0.5, deviation=0.0), outcome("v000002", 0.75, deviation=0.0)])
    assert better.detail.endswith("it is 0.5 over 100. The newer is higher by 0.25.") and better.todo == ""
    same = alarm("reward_drop", outcomes=[outcome("v000001", 0.5), outcome("v000002", 0.5)])
    assert same.detail.endswith("The two are equal.")
    few = alarm("reward_drop", outcomes=outcomes[:1])
    assert few.detail.startswith("Versions with at least 20 rewarded trajectories: 1.") and few.value is None and few.todo


def test_what_is_stale_is_said_with_what_to_turn() -> None:
    found = alarm("stale", recent={"waiting": 20, "stale": 11})
    began = "of those that began since 2026-05-28 20:26 UTC"
    assert found.detail == f"11 of 20 rewarded trajectories that wait, {began}, were sampled more than 2 versions ago."
    assert "max_staleness" in found.todo
    assert alarm("stale", recent={"waiting": 20, "stale": 10}).todo == ""
    assert alarm("stale", recent={"waiting": 19, "stale": 19}).detail.endswith("It takes 20 that wait to judge.")


@pytest.mark.slow
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
    since = "began since 2026-05-28 19:26 UTC"
    counted = "may train, 2 rewarded, 2 wait for a trainer, 0 trained on. No version has learned yet. No step took those that wait."
    assert details == [f"3 {since}: 3 {counted}", f"4 {since}: 4 {counted}"]
    assert 'headrace_alarm{name="starvation"} 0' in exposition(mine)
    file = AlarmFile(proxy.services)
    file.write()
    assert "headrace_journal_backlog_bytes 0" in file.path.read_text()
    file.path.unlink()
    file.write()  # not yet again
    assert not file.path.exists()
    proxy.services.database.close()
