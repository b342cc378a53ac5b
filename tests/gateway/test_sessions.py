"""Where a session's name comes from, in which order, and what an inferred one depends on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import CHAT as DIALECT
from gateway.dialects import COMPLETIONS, MESSAGES, RESPONSES
from gateway.dialects.openings import Beginnings
from gateway.parsing import parse_request
from gateway.sessions import SessionNamer, header_session
from tests.gateway.sse import BODY, CHAT

NAMER = SessionNamer(b"k" * 32)


def request(**fields):
    body = {"model": "m", "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}], **fields}
    return parse_request(json.dumps(body).encode())


def name(namer=NAMER, url="", headers=(), tenant="t", key="k", dialect=DIALECT, **fields):
    return namer.name(tenant, key, url, header_session(list(headers)), request(**fields), dialect)


def test_the_order_is_url_header_metadata_user():
    headers = [(b"x-litellm-session-id", b"lite"), (b"x-headrace-session", b"ours"), (b"x-foo-session-id", b"foo")]
    body = {"metadata": {"session_id": "meta"}, "prompt_cache_key": "cache", "user": "person"}
    assert (name(url="u", headers=headers, **body).session_id, name(url="u").source) == ("u", "url")
    assert (name(headers=headers, **body).session_id, name(headers=headers).source) == ("ours", "header")
    assert name(headers=headers[2:], **body).session_id == "foo"
    assert (name(**body).session_id, name(**body).source) == ("meta", "body")
    assert name(user="person").source == "inferred"
    assert name(SessionNamer(b"k" * 32, user_is_session=True), user="person").session_id == "person"


@pytest.mark.parametrize(
    "header", [b"x-session-id", b"x-smg-routing-key", b"x-session-affinity", b"session_id", b"thread-id", b"x-any-session-id"]
)
def test_every_accepted_header_names_the_session(header):
    assert header_session([(b"accept", b"*/*"), (header, b" s1 ")]) == b"s1"


@pytest.mark.parametrize("header", [b"x-request-id", b"session", b"x-session", b"-session-id"])
def test_no_other_header_does(header):
    assert header_session([(header, b"s1")]) == b""


def test_an_inferred_session_stays_through_a_conversation_and_differs_between_them():
    grown = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    assert name() == name(messages=grown, temperature=0.5)
    others = [
        name(key="other"),
        name(messages=[{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi!"}]),
        name(messages=[{"role": "system", "content": "be kindhi"}, {"role": "user", "content": ""}]),
        name(SessionNamer(b"x" * 32)),
    ]
    assert len({one.session_id for one in [name(), *others]}) == 5


TURNS = st.lists(
    st.tuples(st.sampled_from(["system", "developer", "user", "assistant", "tool"]), st.sampled_from(["", "hi", '"}]', "{"])),
    max_size=4,
)


@given(one=TURNS, other=TURNS, cut=st.integers(0, 4))
def test_what_is_remembered_of_the_request_before_changes_no_opening(one, other, cut):
    def fields(turns):
        return request(messages=[{"content": text, "role": role} for role, text in turns]).fields

    remembering = Beginnings()
    for turns in (one, one, one[:cut] + other, other, other, one[:cut] + other, one):
        assert DIALECT.opening(fields(turns), remembering) == DIALECT.opening(fields(turns), Beginnings())


def test_instructions_that_come_later_do_not_change_a_session():
    user, later = {"role": "user", "content": "hi"}, {"role": "system", "content": "be brief"}
    assert name(messages=[user]) == name(messages=[user, later]) != name(messages=[later, user])


def test_a_prompt_cache_key_does_not_tie_conversations_together():
    one, other = (name(prompt_cache_key="same", messages=[{"role": "user", "content": text}]) for text in ("hi", "ho"))
    assert one.source == other.source == "inferred"
    assert one.session_id != other.session_id


def test_the_same_name_in_two_tenants_has_two_affinities():
    assert name(url="s", tenant="a").affinity != name(url="s", tenant="b").affinity
    assert name(url="s", tenant="a").affinity == name(url="s", tenant="a", key="other").affinity


@given(st.text(min_size=1))
def test_any_name_becomes_one_that_can_stand_in_a_header(raw):
    made = name(url=raw).session_id
    assert made and made.isascii() and made.isprintable() and len(made) <= 128
    assert made == name(url=raw).session_id


@pytest.mark.parametrize(
    "field", [{"metadata": 1}, {"metadata": {"session_id": 5}}, {"prompt_cache_key": []}, {"messages": "x"}, {"messages": [1]}]
)
def test_fields_of_the_wrong_type_are_passed_over(field):
    assert name(**field).source == "inferred"


async def test_the_answer_says_which_session_it_belongs_to_and_the_url_names_one(served):
    async with served.client() as client:
        by_url = await client.post(f"/s/run-7{CHAT}", json=BODY)
        by_header = await client.post(CHAT, json=BODY, headers={"x-session-id": "run-8"})
        inferred = await client.post(CHAT, json=BODY)
    assert [answer.headers["x-headrace-session"] for answer in (by_url, by_header)] == ["run-7", "run-8"]
    assert inferred.headers["x-headrace-session"].startswith("inferred-")
    assert [half.session_source for half in served.journal.begun.values()] == ["url", "header", "inferred"]
    assert [half.path for half in served.journal.begun.values()] == [CHAT] * 3


CLAUDE_CODE = {"metadata": {"user_id": "user_0a1_account__session_11-22"}}


@pytest.mark.parametrize(
    ("fields", "policy", "expected"),
    [
        (CLAUDE_CODE, False, "11-22"),
        (CLAUDE_CODE, True, "11-22"),
        ({"metadata": {"user_id": "person"}}, True, "person"),
        ({"metadata": {"user_id": "person"}}, False, None),
        ({"metadata": {"user_id": "person", "session_id": "s"}}, True, "s"),
        ({"user": "person"}, True, None),
    ],
)
def test_the_user_of_messages_names_a_session_by_the_same_policy(fields, policy, expected):
    session = name(SessionNamer(b"k" * 32, user_is_session=policy), dialect=MESSAGES, **fields)
    assert session.session_id == expected or (expected is None and session.source == "inferred")


GROWN = [{"role": "assistant", "content": "x"}, {"role": "user", "content": "more"}]
OPENINGS = [
    (
        MESSAGES,
        {"system": [{"type": "text", "text": "s"}]},
        "messages",
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    ),
    (RESPONSES, {"instructions": "s"}, "input", [{"role": "user", "content": "a"}]),
    (RESPONSES, {}, "input", [{"role": "developer", "content": "s"}, {"type": "message", "role": "user", "content": "a"}]),
]


@pytest.mark.parametrize(("dialect", "fields", "turns", "start"), OPENINGS)
def test_an_inferred_session_stays_through_a_conversation_in_every_dialect(dialect, fields, turns, start):
    def session(items, **more):
        return name(dialect=dialect, **{**fields, turns: items, **more}).session_id

    other = [*start[:-1], {"role": "user", "content": "b"}]
    assert session(start) == session(start + GROWN, temperature=1) != session(other)
    assert session(start) != session(start, system="t", instructions="t") or not fields


def test_a_string_is_an_opening_and_a_prompt_is_known_by_how_it_begins():
    assert name(dialect=RESPONSES, input="a") != name(dialect=RESPONSES, input="b")
    long = "word " * 200
    assert name(dialect=COMPLETIONS, prompt=long) == name(dialect=COMPLETIONS, prompt=long + "more")
    assert name(dialect=COMPLETIONS, prompt=long) != name(dialect=COMPLETIONS, prompt="x" + long)
    for dialect in (RESPONSES, COMPLETIONS, MESSAGES):
        assert name(dialect=dialect, input=7, prompt={}, messages=7, system=7).source == "inferred"
