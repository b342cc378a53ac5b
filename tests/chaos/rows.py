"""The table of chaos: every fault point, whoever dies there, and the tests that kill it there.

``quick``: among fakes that the contract tests hold, in `make test`. ``real``: in a whole Headrace with real SGLang; what is marked
soak is in `make soak`. `test_rows.py` compares the table with the product.
"""

from dataclasses import dataclass
from typing import Literal

Victim = Literal["gateway", "data proxy", "trainer", "publisher", "keeper", "engine"]
"""publisher: `headrace rollback` and its like, and the keeper where a person ordered it; no training set-up."""

SWAP = (
    "swap.after_pause", "swap.after_begin", "swap.mid_tensors", "swap.after_end", "swap.before_continue", "swap.after_continue",
)  # fmt: skip
TRAINER = (
    "trainer.after_lease", "trainer.mid_step", "trainer.before_publish", "trainer.after_publish", *SWAP,
    "trainer.before_serving", "trainer.before_ack",
)  # fmt: skip
ENGINE = ("engine.after_pause", "engine.after_begin", "engine.after_end", "engine.before_continue", "engine.after_continue")
GATEWAY = ("gateway.after_finish_chunk", "gateway.before_fsync", "gateway.after_commit")
DRAIN = ("dataproxy.mid_drain", "dataproxy.after_commit")
LEASES = ("dataproxy.after_lease", "dataproxy.mid_ack", "dataproxy.after_ack")

_KILLS = "tests/e2e/test_kill.py::test_no_answer_that_a_client_has_is_lost_or_stored_twice_by_kills_at_fault_points"
_REAL = "tests/chaos/test_real.py"


@dataclass(frozen=True)
class Row:
    """Who dies where, and which tests show what becomes of it."""

    point: str
    dies: Victim
    quick: str
    real: str


def _rows(points: tuple[str, ...], dies: Victim, quick: str, real: str) -> list[Row]:
    return [Row(point, dies, quick, real) for point in points]


ROWS = [
    *_rows(GATEWAY, "gateway", "tests/durability/test_kills.py::test_no_answer_that_a_client_has_is_lost_or_stored_twice", _KILLS),
    *_rows(DRAIN, "data proxy",
           "tests/dataproxy/test_process.py::test_killed_at_its_fault_points_it_loses_nothing_and_repeats_nothing", _KILLS),
    *_rows(LEASES, "data proxy", "tests/chaos/test_store.py::test_a_data_proxy_killed_in_a_lease_or_an_ack_is_waited_for", _KILLS),
    *_rows(TRAINER, "trainer",
           "tests/workers/trainer/test_crashes.py::test_a_trainer_killed_anywhere_is_followed_by_one_that_trains_each_sample_once",
           _KILLS),
    *_rows((*SWAP, "trainer.before_serving"), "publisher",
           "tests/chaos/test_publisher.py::test_a_rollback_killed_anywhere_is_undone_by_the_keeper_and_can_be_repeated",
           f"{_REAL}::test_a_rollback_killed_anywhere_is_undone_by_the_keeper"),
    *_rows(SWAP, "keeper", "tests/chaos/test_publisher.py::test_a_keeper_killed_anywhere_is_followed_by_one_that_ends_the_repair",
           f"{_REAL}::test_a_keeper_killed_anywhere_is_followed_by_one_that_ends_the_repair"),
    *_rows(ENGINE, "engine", "tests/chaos/test_engine.py::test_an_engine_killed_anywhere_takes_the_version_back_from_all",
           f"{_REAL}::test_an_engine_killed_anywhere_in_a_swap_comes_back_with_what_serves"),
]  # fmt: skip


def points_of(dies: Victim) -> list[str]:
    """The points at which one of them dies, in the order of a step."""
    return [row.point for row in ROWS if row.dies == dies]
