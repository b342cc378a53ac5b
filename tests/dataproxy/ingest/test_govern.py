"""Redaction of events by the real rules: what looks like a number inside an id is none; what is one, wherever it stands, goes."""

import pytest

from atdp.events import Event
from dataproxy.digests import KeyedDigests
from dataproxy.ingest.govern import govern
from dataproxy.redact import Redactor

KEY = bytes(32)
MAIL = "jo.doe@example.org"


def made(**fields: object) -> Event:
    body = {
        "event_id": "e1",
        "tenant": "acme",
        "agent": "desk",
        "kind": "retrieval",
        "started_at": 1,
        "ended_at": 2,
        "boundary": "api",
    }
    return Event(**body | fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(KEY, 16, None)


@pytest.mark.parametrize(
    "name",
    [
        "41111111-1111-4111-8111-411111111111",
        "otel-41111111111111114111111111111111-4111111111111111",
        "chatcmpl-411111111111111141111111111111114111111111111111",
        "trace-41111111111111114111111111111111",
    ],
)
def test_ids_of_random_digits_stay_as_they_are(redactor: Redactor, name: str) -> None:
    governed = govern(made(event_id=name, parent_id=name, session_id=name), redactor, KeyedDigests(KEY))
    assert governed.changed == frozenset() and governed.stored.event.parent_id == governed.stored.event.session_id == name


def test_personal_values_go_wherever_they_stand_and_the_version_of_the_rules_is_kept(redactor: Redactor) -> None:
    event = made(
        o={"messages": [{"role": "user", "content": MAIL}], "text": f"to {MAIL}"},
        h={"plan": MAIL}, a={"query": MAIL, MAIL: 1}, y={"result": {"deep": [MAIL]}}, r=[{"value": 1, "explanation": MAIL}],
        m={"model": "m", "note": MAIL}, extra={"x": MAIL}, parent_id=f"of {MAIL}", session_id=MAIL, subject=MAIL,
    )  # fmt: skip
    governed = govern(event, redactor, KeyedDigests(KEY))
    assert MAIL not in repr(governed)
    assert governed.changed == {"parent_id", "session_id"} and governed.stored.event.session_id.startswith("digest-")
    assert governed.stored.event.m["redaction"].startswith("pattern-")
    assert len(governed.stored.event.subject) == 32
