"""The demo's job, seen from outside: what the agent wrote down, judged as its user would judge it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deploy.demo.plan import Answer


class Task:
    """Knows all tickets, and so which answer is right. The agent does not."""

    def __init__(self) -> None:
        from examples.triage.tickets import tickets

        self._tickets = {ticket.id: ticket for split in ("train", "held_out") for ticket in tickets(split)}

    def answers(self, lines: Iterable[Mapping[str, Any]]) -> list[Answer]:
        """The answers in new lines of the agent's outbox."""
        from examples.triage.reward import judge

        found = []
        for line in lines:
            ticket = self._tickets[line["ticket"]]
            verdict = judge(line["answer"], ticket)
            partial = not verdict.success and verdict.reward > 0
            found.append(Answer(line["turns"][-1]["completion"], verdict.success, partial, bool(ticket.personal)))
        return found


def share(answers: Sequence[Answer]) -> float:
    """Successes per answer; 0 where there is none."""
    return sum(answer.success for answer in answers) / max(1, len(answers))


def partial_share(answers: Sequence[Answer]) -> float:
    """Answers that earned partial credit alone, per answer; 0 where there is none."""
    return sum(answer.partial for answer in answers) / max(1, len(answers))
