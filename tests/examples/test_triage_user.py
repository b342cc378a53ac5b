"""examples.triage.user: when it speaks, what it posts, and that the control arm deals the same rewards at random."""

from __future__ import annotations

import json
import os
import random
from io import StringIO
from pathlib import Path
from threading import Event

import httpx

from examples.triage.reward import Verdict
from examples.triage.tickets import tickets
from examples.triage.user import REPAIRED, Desk, Judged, Poster, follow, new_lines

TICKETS = {ticket.id: ticket for ticket in tickets("train")}
RIGHT = next(iter(TICKETS.values()))


def line(ticket_id: str, *answers: str) -> str:
    turns = [{"completion": f"{ticket_id}-{n}", "answer": answer} for n, answer in enumerate(answers)]
    return json.dumps({"ticket": ticket_id, "answered_at": 100.0, "answer": answers[-1], "turns": turns}) + "\n"


def desk(window: int = 1) -> Desk:
    return Desk(TICKETS, (2.0, 4.0), random.Random(0), window)


def right(ticket_id: str) -> str:
    return f'{{"order": {TICKETS[ticket_id].order}}}'


class Server:
    """Answers with the given statuses, then 200; keeps what was posted."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.posted: list[dict[str, object]] = []

    def poster(self) -> Poster:
        return Poster(httpx.Client(base_url="http://test/v1/", transport=httpx.MockTransport(self._handle)), patience_s=5)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/feedback"
        self.posted.append(json.loads(request.content))
        return httpx.Response(self.statuses.pop(0) if self.statuses else 200)


def test_a_right_answer_is_worth_one_and_is_due_after_the_pause() -> None:
    [judged] = desk().read(line(RIGHT.id, right(RIGHT.id)))
    assert judged.verdict == Verdict(success=True, reward=1.0)
    assert 102.0 <= judged.due <= 104.0


def test_a_repaired_answer_is_worth_less_and_the_last_completion_gets_it() -> None:
    [judged] = desk().read(line(RIGHT.id, "Sorry", right(RIGHT.id)))
    assert judged.completion == f"{RIGHT.id}-1"
    assert judged.verdict == Verdict(success=True, reward=REPAIRED)


def test_the_control_arm_holds_a_window_and_permutes_its_verdicts() -> None:
    control, honest = desk(window=8), desk()
    lines = [line(ticket_id, right(ticket_id) if n % 2 else "Sorry") for n, ticket_id in enumerate(list(TICKETS)[:8])]
    truth = [judged for text in lines for judged in honest.read(text)]
    dealt = [judged for text in lines for judged in control.read(text)]
    assert [judged.completion for judged in dealt] == [judged.completion for judged in truth]
    assert [judged.verdict for judged in dealt] != [judged.verdict for judged in truth]
    assert sorted(judged.verdict.reward for judged in dealt) == sorted(judged.verdict.reward for judged in truth)


def test_an_open_window_is_dealt_when_asked_for() -> None:
    control = desk(window=8)
    assert control.read(line(RIGHT.id, "Sorry")) == []
    assert [judged.ticket for judged in control.release()] == [RIGHT.id]
    assert control.release() == []


def test_one_reward_is_posted_with_its_idempotency_key_until_it_is_taken() -> None:
    server = Server(503, 202)
    status = server.poster().post(Judged("t", "chatcmpl-1", Verdict(success=True, reward=1.0), due=0.0))
    assert status == 202
    assert server.posted == 2 * [
        {"target": "chatcmpl-1", "name": "resolved", "value": 1.0, "source": "user",
         "idempotency_key": "chatcmpl-1:resolved"}
    ]  # fmt: skip


def test_a_refused_reward_is_not_tried_again() -> None:
    server = Server(404)
    assert server.poster().post(Judged("t", "chatcmpl-1", Verdict(success=False, reward=0.0), due=0.0)) == 404
    assert len(server.posted) == 1


def test_half_a_line_waits_for_its_end() -> None:
    file = StringIO("one\ntw")
    assert list(new_lines(file)) == ["one\n"]
    position = file.tell()
    file.seek(0, os.SEEK_END)
    file.write("o\n")
    file.seek(position)
    assert list(new_lines(file)) == ["two\n"]


def test_when_stopped_everything_in_the_outbox_is_posted_and_logged(tmp_path: Path) -> None:
    outbox, log, stop, server = tmp_path / "outbox", StringIO(), Event(), Server(404)
    outbox.write_text(line(RIGHT.id, "Sorry", right(RIGHT.id)) + line(RIGHT.id, right(RIGHT.id)))
    stop.set()
    assert follow(outbox, desk(), server.poster(), log, stop) == 1
    assert [json.loads(entry)["status"] for entry in log.getvalue().splitlines()] == [404, 200]
    assert [post["value"] for post in server.posted] == [REPAIRED, 1.0]
