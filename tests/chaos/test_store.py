"""The store goes away while a trainer works: the data proxy killed or ended in a lease or an ack, PostgreSQL stopped under it.

The trainer is the same process all the while: it says what it waits for, loses nothing and trains nothing twice.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataproxy.client import Unavailable
from tests.chaos.outcome import assert_settled
from tests.chaos.rows import LEASES
from tests.chaos.site import Site, running_site
from tests.postgres import HOW_TO_GET_IT, PostgresServer, find_binaries, temporary_postgres
from tests.workers.trainer.world import SIGKILLED

pytestmark = pytest.mark.slow

WAITS, GOES_ON = "waiting up to 120 s for the data proxy", "the data proxy answers again after"
TRIES_AGAIN = "trying again in 1.0 s: "


@pytest.fixture
def site(tmp_path: Path, micro: Path) -> Iterator[Site]:
    """On SQLite."""
    with running_site(tmp_path, micro) as made:
        yield made


@pytest.mark.parametrize("point", LEASES)
def test_a_data_proxy_killed_in_a_lease_or_an_ack_is_waited_for(site: Site, point: str) -> None:
    names = site.earn(4)
    (site.faults / f"{point}.kill").touch()
    trainer = site.train()
    assert site.store.wait() == SIGKILLED
    site.start_store()
    assert trainer.wait() == 0, site.last_words()
    assert WAITS in site.log.read_text() and GOES_ON in site.log.read_text()
    assert_all_is_well(site, names, 1)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_data_proxy_restarted_under_a_lease_keeps_it(site: Site, end: signal.Signals) -> None:
    names = site.earn(4)
    trainer = site.train(lease_ttl_s=600)
    site.until(lambda: site.passed("trainer.after_lease") == 1, "a lease")
    site.store.end(end)
    site.start_store()
    assert trainer.wait() == 0, site.last_words()
    assert_all_is_well(site, names, 1)
    assert site.rows("SELECT count(*) FROM lease") == [(1,)]


def test_a_server_stopped_under_a_drain_a_lease_and_a_step_is_waited_for_by_everybody(tmp_path: Path, micro: Path) -> None:
    if find_binaries() is None:
        pytest.skip(f"NOT TESTED: {HOW_TO_GET_IT}")
    with temporary_postgres() as server, running_site(tmp_path, micro, server.new_database()) as site:
        stop_under(site, server)


def stop_under(site: Site, server: PostgresServer) -> None:
    """Three steps of a trainer, and in each the server stops after the lease."""
    names = site.earn(4)
    trainer = site.train(max_steps=3)
    for step in (1, 2, 3):
        site.until(lambda step=step: site.passed("trainer.after_lease") >= step, f"lease {step}")
        server.stop()
        journaled, num_refused = site.journal_calls(4, f"v{step - 1:06d}"), site.store_log.read_text().count(TRIES_AGAIN)
        site.until(lambda num=num_refused: site.store_log.read_text().count(TRIES_AGAIN) > num, "a word of the data proxy")
        with site.client() as client, pytest.raises(Unavailable, match="the store does not answer right now"):
            client.serving_version()
        server.start()
        site.reward(journaled)
        names += journaled
    assert trainer.wait() == 0, site.last_words()
    assert WAITS in site.log.read_text() and GOES_ON in site.log.read_text()
    site.until(lambda: site.rows("SELECT count(*) FROM event WHERE kind = 'model_call'") == [(16,)], "all calls in the store")
    assert site.rows("SELECT count(*) FROM reward") == [(16,)] and site.rows("SELECT count(*) FROM quarantine") == [(0,)]
    assert_all_is_well(site, names, 3)
    assert site.is_running(site.store)


def assert_all_is_well(site: Site, names: list[str], num_versions: int) -> None:
    """So many versions, each of four trajectories, none trained twice; the engine serves the last."""
    versions = [f"v{index:06d}" for index in range(1, num_versions + 1)]
    assert site.uses(names) == dict.fromkeys(versions, 4)
    with site.client() as client:
        assert_settled(site.engine_url, client, versions[-1])
        served = {one.version: one for one in client.list_versions()}
        assert [name for name in served if served[name].batch_id] == versions
        for name in versions:
            assert len(client.get_batch(served[name].batch_id or "").trajectories) == 4
        assert client.status().leases == 0
