"""What governance costs: arms do what they say and nothing of them stays, shares are those of the traffic, a tiny run adds up."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from bench import governance
from bench.drain import NoRedactors
from bench.drain_traffic import MASK_ID, TOKENS, ids_of
from bench.governance import ARMS, CASES, GATEWAYS, Arm, cited, measure_drain, measure_latency, without_ledger
from bench.governance_traffic import TERMS, Vocabulary, conversations, trained_share
from dataproxy.store import events
from dataproxy.store.schema import event, log_leaf
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy

WORDS = Vocabulary(ids_of, TOKENS, MASK_ID)


async def test_without_the_ledger_events_are_stored_and_get_no_leaf(tmp_path: Path) -> None:
    proxy, append = Proxy(tmp_path, Clock()), events.append
    journal = proxy.journal()
    stored = []
    for ledger in (False, True):
        await write(journal, exchange([user("a")]))
        before = proxy.rows(select(func.count()).select_from(log_leaf).where(log_leaf.c.kind == "event"))[0][0]
        if ledger:
            proxy.drain()
        else:
            with without_ledger():
                proxy.drain()
        after = proxy.rows(select(func.count()).select_from(log_leaf).where(log_leaf.c.kind == "event"))[0][0]
        stored.append((proxy.count(event), after - before))
    journal.close()
    proxy.services.database.close()
    assert stored == [(1, 0), (2, 1)] and events.append is append


def test_every_arm_of_the_drain_stores_the_same_traffic_and_a_slow_one_less_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: ARMS[name] for name in ("stored, nothing else", "+ pattern lane and ledger (default)")}
    few["slow"] = Arm(NoRedactors, True, fewer=2)
    monkeypatch.setattr(governance, "ARMS", few)
    measured = measure_drain(rounds=2, talks=2)
    assert [one["n"] for one in measured.values()] == [2 * 2 * 3, 2 * 2 * 3, 2 * 1 * 3]
    for one in measured.values():
        assert len(one["rounds"]) == 2
        assert min(one["rounds"]) <= one["events_s_core"] <= max(one["rounds"])


@pytest.mark.slow
def test_what_may_train_depends_on_the_policy_alone() -> None:
    count = 12
    shares = {name: trained_share(terms, WORDS, count) for name, terms in TERMS.items()}
    turns = [turn for made in conversations(count) for turn in made]
    personal = sum(turn.personal for turn in turns)
    assert 0 < personal < len(turns)
    for one in shares.values():
        assert (one["calls"], one["calls_with_value"], one["quarantined"]) == (len(turns), personal, 0)
    assert shares["drop"]["trainable_with_value"] == 0
    assert shares["drop"]["trainable"] == pytest.approx(1 - personal / len(turns), abs=1e-4)
    for name in ("nothing redacted", "pseudonymize", "vault"):
        assert shares[name]["trainable"] == shares[name]["trained_tokens"] == 1
    assert shares["nothing redacted"]["altered_tokens"] == shares["pseudonymize"]["altered_tokens"] == 0
    assert shares["mask"]["altered_tokens"] == shares["vault"]["altered_tokens"] == shares["drop"]["altered_tokens"] > 0
    assert shares["drop"]["trained_tokens"] < shares["mask"]["trained_tokens"] < 1


def test_the_answers_that_are_cited_are_kept_here() -> None:
    learned, shifted = cited().values()
    assert set(learned) == {"online", "altered 5 %", "altered 20 %"} and "0.15" in shifted


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("taskset") is None, reason="pins processes with taskset")
def test_a_tiny_run_has_every_gateway_in_every_case() -> None:
    measured = measure_latency(rounds=1, seconds=0.2)
    assert measured.keys() == CASES.keys()
    for name, gateways in measured.items():
        assert gateways.keys() == GATEWAYS.keys()
        for one in gateways.values():
            assert one["n"] > 0 and one["cpu_us"] > 0 and one["call_ms"][0] <= one["call_ms"][1]
            assert one["first_ms"][0] <= one["call_ms"][0]
            assert ("gap_ms" in one) == CASES[name].stream
