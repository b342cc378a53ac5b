"""Surrogates: of their value's kind and form, one for one value, nobody's where there is such a range, and nothing left over."""

import json
from random import Random
from typing import Any

import pytest

from dataproxy.digests import KeyedDigests
from dataproxy.pseudonym_types import Pseudonymized
from dataproxy.pseudonyms.substitute import _Surrogates, pseudonymized
from dataproxy.pseudonyms.surrogates import surrogate
from dataproxy.redact import RedactionFailed
from dataproxy.redact.detector import Detector

DETECTOR, DIGESTS = Detector(bytes(32)), KeyedDigests(bytes(32))
VALUES = {
    "EMAIL": "ann.bo@acme.io",
    "PHONE": "+1 (212) 867-5309",
    "CARD": "4111 1111 1111 1111",
    "IBAN": "DE89 3704 0044 0532 0130 00",
    "IP": "8.8.4.4",
    "MAC": "3c:22:fb:01:9a:7e",
    "CONNECTION_STRING": "postgres://ann:hunter22@db.acme.io:5432/main",
}


def made(*contents: Any, session: str = "s", **fields: Any) -> Pseudonymized:
    body = {"model": "m", "messages": [{"role": "user", "content": content} for content in contents], **fields}
    return pseudonymized(DETECTOR, DIGESTS, session, json.dumps(body).encode(), 5.0)


@pytest.mark.parametrize("kind", VALUES)
def test_a_surrogate_is_seen_as_the_same_kind_by_the_rules(kind: str) -> None:
    value = VALUES[kind]
    for seed in range(20):
        found = surrogate(kind, value, Random(seed))
        assert found != value and [one.kind for one in DETECTOR.detect(f"call or write: {found} please")] == [kind], found


def test_form_is_kept_so_that_numbers_stay_numbers_and_json_stays_json() -> None:
    arguments = json.dumps({"card": 4111111111111111, "note": 'mail "ann@acme.io"\n', "bcc": ["ann@acme.io"]})
    done = made("ann@acme.io", arguments)
    shown = json.loads(json.loads(done.body)["messages"][1]["content"])
    address = json.loads(done.body)["messages"][0]["content"]
    assert isinstance(shown["card"], int) and len(str(shown["card"])) == 16 and shown["card"] != 4111111111111111
    assert shown["note"] == f'mail "{address}"\n' and shown["bcc"] == [address]
    assert b"ann@acme" not in done.body


def test_every_spelling_of_a_value_has_that_of_its_surrogate() -> None:
    done = made("see https://x.io/?q=ann%40acme.io and ann@acme.io")
    text = json.loads(done.body)["messages"][0]["content"]
    plain = text.split()[-1]
    assert text == f"see https://x.io/?q={plain.replace('@', '%40')} and {plain}"
    assert {form.surrogate: form.value for form in done.forms}[plain.replace("@", "%40")] == "ann%40acme.io"


def test_a_session_keeps_its_surrogates_and_another_has_others() -> None:
    first, again, more, other = (
        made("ann@acme.io"),
        made("ann@acme.io"),
        made("ann@acme.io", "bo@x.io"),
        made("ann@acme.io", session="t"),
    )
    names = [json.loads(one.body)["messages"][0]["content"] for one in (first, again, more, other)]
    assert names[0] == names[1] == names[2] != names[3]


def test_two_values_never_share_one_and_the_way_back_is_whole() -> None:
    addresses = [f"user{n}@acme.io" for n in range(150)]
    done = made(" ".join(addresses))
    shown = json.loads(done.body)["messages"][0]["content"].split()
    back = {form.surrogate: form.value for form in done.forms}
    assert len(set(shown)) == 150 and [back[name] for name in shown] == addresses


def test_whom_the_agent_serves_and_a_clean_request_stay_as_they_are() -> None:
    done = made("hello ann@acme.io", user="ann@acme.io", metadata={"user_id": "ann@acme.io"})
    body = json.loads(done.body)
    assert body["user"] == "ann@acme.io" == body["metadata"]["user_id"] and "ann@" not in body["messages"][0]["content"]
    clean = b'{"model": "m",  "messages": [{"role": "user", "content": "hi 1.50"}], "temperature": 1.50}'
    assert pseudonymized(DETECTOR, DIGESTS, "s", clean, 5.0) == Pseudonymized(clean, [])


def test_what_cannot_be_replaced_for_certain_is_refused() -> None:
    with pytest.raises(RedactionFailed, match="data_url"):
        made("data:text/plain;base64,bWFpbCBhbm5AYWNtZS5pbyBub3c=")
    with pytest.raises(RedactionFailed, match="bulk"):
        made("\n".join(f"u{n}@acme.io" for n in range(1100)))
    with pytest.raises(RedactionFailed, match="timeout"):
        pseudonymized(DETECTOR, DIGESTS, "s", b'{"messages": [{"content": "fresh text of ann@acme.io"}]}', -1.0)


def test_names_do_not_run_out() -> None:
    found = _Surrogates(DIGESTS, "s", "")
    one = DETECTOR.detect("ann@acme.io")[0]
    names = [f"Name{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(200)]
    made = [found.of(name, one._replace(kind="PERSON", canonical=name.encode())) for name in names]
    assert len(set(made)) == 200
