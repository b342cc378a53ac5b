"""examples.triage.reward: success is exact, partial credit is for form."""

from __future__ import annotations

import pytest

from examples.triage.reward import Verdict, judge, type_of
from examples.triage.tickets import Ticket

TICKET = Ticket(id="t", text="The lamp does not switch on any more.", queue="bug", personal=())


@pytest.mark.parametrize("answer", ['{"type": "bug"}', '{"type":"bug"}', ' {"type": "bug"}\n', '{ "type" : "bug" }'])
def test_one_object_with_the_right_queue_is_success(answer: str) -> None:
    assert judge(answer, TICKET) == Verdict(success=True, reward=1.0)


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "login"}', '{"type": "bug"} or', '{"type": "bug", "more": 1}', '["bug"]', '"bug"', "bug", "",
        '{"type": ["bug"]}', '{"type": null}', '{"queue": "bug"}', '{"type": "bugs"}', '{"type": "Bug"}', "{'type': 'bug'}",
        '{"type": "bug"}{"type": "bug"}', "NaN",
    ],
)  # fmt: skip
def test_anything_else_is_not(answer: str) -> None:
    verdict = judge(answer, TICKET)
    assert not verdict.success
    assert 0.0 <= verdict.reward <= 0.1


def test_credit_for_form_rises_towards_the_object() -> None:
    answers = ["The type is bug", "{'type'", '{"type": bug', '{"type": "login"} or', '{"type": "login"}', '{"type": "bug"}']
    rewards = [judge(answer, TICKET).reward for answer in answers]
    assert rewards == sorted(set(rewards))


def test_the_wrong_queue_earns_no_more_than_an_unknown_one() -> None:
    assert judge('{"type": "login"}', TICKET) == judge('{"type": "tool"}', TICKET)


def test_type_of_reads_one_object_only() -> None:
    assert type_of('{"type": "tool"}') == "tool"
    assert type_of('{"type": "tool"} ok') is None
