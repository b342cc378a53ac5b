"""Whose turn it is: serving at once, training after quiet, and neither starved. Time is an argument."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.trainer.compute import Arrivals, Compute, Controller, Load, Share

COMPUTE = Compute(quiet_s=0.5, min_share=0.1, max_share=0.5, grace_s=2.0)


def test_serving_takes_over_at_once_and_training_after_quiet() -> None:
    controller = Controller(COMPUTE, 0.0)
    assert controller.decide(Load(0), 0.0).mode == "trains"
    busy = controller.decide(Load(2), 1.0)
    assert (busy.mode, busy.since, busy.reason) == ("serves", 1.0, "2 in flight")
    assert controller.decide(Load(0), 1.4).mode == "serves"
    again = controller.decide(Load(0), 1.5)
    assert (again.mode, again.since) == ("trains", 1.5)


def test_a_short_gap_between_requests_is_no_turn_of_training() -> None:
    controller = Controller(COMPUTE, 0.0)
    modes = {controller.decide(Load(step % 3 // 2), step * 0.2).mode for step in range(2, 30)}
    assert modes == {"serves"}


def test_a_request_that_would_come_before_training_could_stop_counts_before_it_came() -> None:
    controller = Controller(COMPUTE, 0.0)
    controller.computed(1.0)
    for step in range(41):  # two requests a second, each so short that no look sees it
        decision = controller.decide(Load(0, num_received=step // 5), step * 0.1)
    assert decision.mode == "serves" and "requests/s" in decision.reason
    for _ in range(30):
        controller.computed(0.01)
    assert controller.decide(Load(0, num_received=8), 4.6).mode == "trains"


def test_an_engine_that_starts_again_counts_anew() -> None:
    arrivals = Arrivals(memory_s=1.0)
    arrivals.see(100, 0.0)
    assert arrivals.see(110, 1.0) > 5.0
    assert 0.0 <= arrivals.see(0, 1.1) <= arrivals.see(1, 1.2) + 1e-9 or arrivals.rate >= 0.0


def test_shares_add_up_and_what_was_idle_counts_for_neither() -> None:
    share = Share(0.0, window_s=5.0)
    share.add(5.0, trained=False)
    assert share.of(5.0) == pytest.approx(2.718281828**-1)
    assert share.of(10.0) == pytest.approx(2.718281828**-2)
    share.skip(100.0)
    assert share.of(100.0) == pytest.approx(2.718281828**-1)
    share.add(1000.0, trained=True)
    assert share.of(1000.0) == pytest.approx(1.0)


@given(st.floats(0.05, 3.0), st.floats(0.05, 0.4), st.integers(1, 8))
@settings(max_examples=25)
def test_under_load_without_end_training_gets_its_floor_and_serving_the_rest(
    microbatch_s: float, floor: float, backlog: int
) -> None:
    compute = Compute(min_share=floor, max_share=0.5, grace_s=2.0)
    controller, load, now, num_microbatches, began = Controller(compute, 0.0), Load(3, backlog=backlog), 0.0, 0, 0.0
    while num_microbatches < 8:
        assert controller.decide(load, now).mode == "serves"
        if controller.is_due(now):
            num_microbatches += 1
            began = began or now
            now += microbatch_s
            controller.trained(load, microbatch_s, now)
        else:
            now += 0.01
    assert began == pytest.approx(2.0, abs=0.02)
    assert 7 * microbatch_s / (now - microbatch_s - began) == pytest.approx(min(0.5, floor * backlog), rel=0.2)


def test_a_new_burst_is_left_alone_for_the_grace_and_one_without_training_in_between_goes_on() -> None:
    controller = Controller(COMPUTE, 0.0)
    controller.trained(Load(0), 0.1, 1.0)
    controller.decide(Load(1), 1.1)
    assert not controller.is_due(3.0) and controller.is_due(3.1)
    controller.decide(Load(0), 2.0)  # a gap in which nothing was trained
    controller.decide(Load(1), 2.2)
    assert controller.is_due(3.1)
    controller.decide(Load(0), 2.8)
    controller.computed(0.1)  # some layers
    controller.decide(Load(1), 3.0)
    assert not controller.is_due(4.9) and controller.is_due(5.0)
