"""The header that marks sessions as attempts at one task: its grammar, in every dialect, and what the journal keeps of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Refused
from gateway.groups import HEADER, Group, group_in
from gateway.sessions import SessionNamer
from tests.gateway.test_dialects import BODIES, each

NAMER = SessionNamer(b"k" * 32)


@pytest.mark.parametrize(
    ("value", "group"),
    [
        (b"task-17", Group("task-17", 0)),
        (b" task 17 ;size=4", Group("task 17", 4)),
        (b"t; Size = 1024 ", Group("t", 1024)),
    ],
)
def test_a_group_has_a_name_and_may_have_a_size(value: bytes, group: Group) -> None:
    assert group_in(value, NAMER) == group


@pytest.mark.parametrize(
    "value", [b" ", b";size=4", b"t;size=1", b"t;size=1025", b"t;size=-3", b"t;size=", b"t;of=4", b"t;4", b"t;size=4;x=1"]
)
def test_what_is_no_group_is_refused_with_what_it_should_be(value: bytes) -> None:
    with pytest.raises(Refused, match="NAME; size=N") as refused:
        group_in(value, NAMER)
    assert (refused.value.status, refused.value.code) == (400, "bad_group")


@given(st.binary(min_size=1).filter(lambda value: b";" not in value and value.decode("latin-1").strip()))
def test_any_name_becomes_one_that_the_store_can_hold(value: bytes) -> None:
    name = group_in(value, NAMER).name
    assert name and name.isascii() and name.isprintable() and len(name) <= 128
    assert name == group_in(value, NAMER).name


def test_long_names_do_not_meet_by_their_beginnings() -> None:
    assert group_in(b"t" * 200 + b"1", NAMER) != group_in(b"t" * 200 + b"2", NAMER)


@each
async def test_every_dialect_hands_the_group_to_the_journal_and_not_to_the_engine(served, dialect):
    async with served.client() as client:
        for headers in ({"x-headrace-group": "task-17; size=4"}, {"X-Headrace-Group": "task-17"}, {}):
            assert (await client.post(dialect.path, json=BODIES[dialect], headers=headers)).status_code == 200
        refused = await client.post(dialect.path, json=BODIES[dialect], headers={"x-headrace-group": "t;size=none"})
    assert refused.status_code == 400 and "NAME; size=N" in refused.text
    assert [(half.group, half.group_size) for half in served.journal.begun.values()] == [("task-17", 4), ("task-17", 0), ("", 0)]
    assert not any(HEADER.decode() in call.headers for call in served.engine.calls)
