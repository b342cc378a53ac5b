"""Events as the conversation that they were: what is new in each turn, branches, tools, reasoning, and bounds."""

from typing import Any

from atdp.events import Event, Span
from dataproxy.console.conversation import MOST_MESSAGES, Reader
from dataproxy.console.plain import Budget


def made(name: str, asked: list[Any], answer: Any = None, parent: str | None = None, **changes: Any) -> Event:
    fields: dict[str, Any] = {"event_id": name, "tenant": "t", "agent": "a", "kind": "model_call", "started_at": 1, "ended_at": 2}
    fields |= {"boundary": "gateway", "o": {"messages": asked}, "a": {"messages": [answer]} if answer else {}, "parent_id": parent}
    return Event(**(fields | changes))


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def texts(messages: list[Any]) -> list[str]:
    return ["".join(piece.text for part in message.parts for piece in part.body.pieces) for message in messages]


def test_a_turn_shows_what_its_parent_has_not() -> None:
    reader = Reader(Budget())
    first = reader.turn(made("e1", [user("a")], said("b")))
    second = reader.turn(made("e2", [user("a"), said("b"), user("c")], said("d"), "e1"))
    assert (texts(first.heard), texts(first.said), first.repeated) == (["a"], ["b"], 0)
    assert (texts(second.heard), texts(second.said), second.repeated, second.branch) == (["c"], ["d"], 2, None)


def test_a_branch_shows_where_it_leaves() -> None:
    reader = Reader(Budget())
    for event in (made("e1", [user("a")], said("b")), made("e2", [user("a"), said("b"), user("c")], said("d"), "e1")):
        reader.turn(event)
    branch = reader.turn(made("e3", [user("a"), said("b"), user("x")], said("y"), "e1"))
    assert (branch.branch, texts(branch.heard)) == ("e1", ["x"])


def test_a_rewritten_history_is_shown_from_where_it_differs() -> None:
    reader = Reader(Budget())
    reader.turn(made("e1", [user("a"), user("b")], said("c")))
    assert texts(reader.turn(made("e2", [user("a"), user("B")], None, "e1")).heard) == ["B"]


def test_very_many_messages_show_the_last_ones() -> None:
    turn = Reader(Budget()).turn(made("e1", [user(str(i)) for i in range(100)]))
    assert (len(turn.heard), turn.hidden, texts(turn.heard)[-1]) == (MOST_MESSAGES, 100 - MOST_MESSAGES, "99")


def test_reasoning_goes_before_the_answer_and_errors_are_shown() -> None:
    turn = Reader(Budget()).turn(
        made("e1", [], said("b"), h={"reasoning": ["hm"]}, y={"status": 500, "error": {"message": "broken"}})
    )
    assert [part.sort for part in turn.said[0].parts] == ["reasoning", "text"]
    assert turn.failed and "broken" in texts(turn.said)[1]


def test_values_are_marked_in_the_message_that_they_stand_in() -> None:
    spans = [Span("EMAIL", "p", 1.0, "/request/messages/0/content", 0, 9, "<EMAIL_1>")]
    turn = Reader(Budget()).turn(made("e1", [user("<EMAIL_1>"), user("<EMAIL_1>")], spans=spans))
    assert [[piece.mark for piece in message.parts[0].body.pieces] for message in turn.heard] == [["redacted"], [""]]
    assert turn.redactions == {"EMAIL": 1}


def test_whatever_agents_send_has_a_form() -> None:
    odd = [
        {"role": 7},
        {"content": 5},
        {"role": "user", "content": [None, 3, {"type": []}]},
        {"role": "assistant", "tool_calls": ["x", {}]},
    ]
    turn = Reader(Budget()).turn(made("e1", [*odd, "not a message"]))
    assert len(turn.heard) == 4
