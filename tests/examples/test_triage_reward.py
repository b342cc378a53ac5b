"""examples.triage.reward: success is exact, partial credit is for form."""

from __future__ import annotations

import pytest

from examples.triage.reward import Verdict, judge, order_in
from examples.triage.tickets import Ticket

TICKET = Ticket(id="t", text="The lamp does not switch on any more. Order 4821.", order=4821, personal=())


@pytest.mark.parametrize("answer", ['{"order": 4821}', '{"order":4821}', ' {"order": 4821}\n', '{ "order" : 4821 }'])
def test_one_object_with_the_right_order_is_success(answer: str) -> None:
    assert judge(answer, TICKET) == Verdict(success=True, reward=1.0)


@pytest.mark.parametrize(
    "answer",
    [
        '{"order": 4822}', '{"order": 4821} or', '{"order": 4821, "more": 1}', "[4821]", "4821", "order 4821", "",
        '{"order": [4821]}', '{"order": null}', '{"id": 4821}', '{"order": "4821"}', '{"order": 4821.0}', "{'order': 4821}",
        '{"order": 4821}{"order": 4821}', "NaN", '{"order": true}', "[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_is_not(answer: str) -> None:
    verdict = judge(answer, TICKET)
    assert not verdict.success
    assert 0.0 <= verdict.reward <= 0.2


def test_credit_for_form_rises_towards_the_object() -> None:
    answers = ["Order 4821", "{'order'", '{"order": x', '{"order": 4821} or', '{"order": 4822}', '{"order": 4821}']
    rewards = [judge(answer, TICKET).reward for answer in answers]
    assert rewards == sorted(set(rewards))


def test_the_example_of_the_prompt_earns_no_more_than_any_wrong_order() -> None:
    assert judge('{"order": 1234}', TICKET) == judge('{"order": 7}', TICKET)


def test_order_in_reads_one_object_only() -> None:
    assert order_in('{"order": 7}') == 7
    assert order_in('{"order": 7} ok') is None
