"""What a tenant adds: rules of its own, values that may stay, kinds that never train, names by a model."""

import numpy as np
import pytest

from dataproxy.admit import AdmissionPolicy
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import RawExchange
from dataproxy.drain.govern import Rules, govern
from dataproxy.redact import InvalidPolicy, RedactionFailed, Redactor, TokenBytes, names
from dataproxy.redact.detector import Detector
from dataproxy.redact.policy import RedactionPolicy, TenantRule
from dataproxy.redact.prose import prose_lines
from tests.dataproxy.exchanges import exchange, record, user
from tests.dataproxy.redact.encoder import MASK_ID, Encoder


def found(text: str, *rules: TenantRule, **policy: object) -> list[tuple[str, str]]:
    detector = Detector(b"k", RedactionPolicy(rules=rules, **policy))  # type: ignore[arg-type]
    return [(d.kind, text[d.start : d.end]) for d in detector.detect(text)]


STAFF = TenantRule("staff", "EMP-[0-9]{4,6}", "STAFF")


@pytest.mark.parametrize("text", ["EMP-12345", "EMP-１２３４５", "工号EMP-12345。", "EMP%2D12345", "EMP\\u002d12345"])
def test_a_tenants_rule_sees_through_disguises(text: str) -> None:
    ((kind, _),) = found(text, STAFF)
    assert kind == "STAFF"


def test_a_tenants_rule_takes_the_longest_match_of_one_line() -> None:
    assert found("EMP-123456 EMP-1234\nEMP-\n1234", STAFF) == [("STAFF", "EMP-123456"), ("STAFF", "EMP-1234")]


@pytest.mark.slow
def test_a_rule_in_another_script_runs_over_the_text_as_it_stands() -> None:
    rule = TenantRule("staff", "工号[0-9]{3,}", "STAFF")
    assert found("é 我的工号12345，单号12345", rule) == [("STAFF", "工号12345")]


@pytest.mark.slow
def test_a_validator_judges_by_the_check_digit() -> None:
    rule = TenantRule("loyalty", "L[0-9]{11}", "LOYALTY", "luhn")
    assert found("L79927398713 L79927398710", rule) == [("LOYALTY", "L79927398713")]


@pytest.mark.slow
def test_a_pattern_that_would_take_a_backtracking_engine_for_ever_is_linear_here() -> None:
    assert found("a" * 20_000 + "!", TenantRule("bad", "(a+)+b", "BAD")) == []


@pytest.mark.slow
def test_a_short_value_of_a_tenants_rule_is_found() -> None:
    assert found("P-1", TenantRule("short", "P-[0-9]", "SHORT")) == [("SHORT", "P-1")]


def test_what_may_stay_stays_and_what_is_like_it_goes() -> None:
    allowed = {"allow": ("help@example.com",), "allow_patterns": (r"[a-z]@corp\.example",)}
    kept = found("Help@Example.com help2@example.com a@corp.example", **allowed)
    assert kept == [("EMAIL", "help2@example.com")]


def test_an_exchange_with_a_dropped_kind_is_masked_and_never_trains(tokens: TokenBytes, encoder: Encoder) -> None:
    text = "mail ana@example.com about this ticket, which is long enough to have its address in it and still be learned from: " * 2
    prompt, output = encoder.chat(("user", text)), encoder.ids("ok<|im_end|>")
    asked, got = exchange([user(text)], "ok", engine_record=record("r", prompt.tolist(), [output.tolist()]))
    reasons = []
    for actions in ({}, {"EMAIL": "drop"}):
        redactor = Redactor(b"k" * 32, MASK_ID, tokens, policy=RedactionPolicy(actions=actions), number=3)  # type: ignore[arg-type]
        rules = Rules(KeyedDigests(bytes(32)), redactor, AdmissionPolicy(0.9), tokenizer="t", may_train=lambda *_: True)
        event = govern(RawExchange(asked, got), rules).event
        reasons.append(event.decisions[0].reason)
        assert event.event.m["redaction"] == "pattern-2/3"
    assert reasons == ["eligible", "dropped_kind"]


def test_names_are_asked_for_in_prose_only() -> None:
    text = 'Dear Hannah, how are you today?\nimport os\n2024-01-02 10:00:00 INFO started\nfoo(bar) = 1;\n{"a": 1}\n我叫王小明\n'
    assert [line for _, line in prose_lines(text)] == ["Dear Hannah, how are you today?", "我叫王小明"]


def test_asking_for_names_without_the_optional_part_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MODULES", ("a_module_that_nobody_has",))
    with pytest.raises(InvalidPolicy, match=r"pip install 'headrace\[ner\]'"):
        Detector(b"k", RedactionPolicy(names=("PERSON",)))


needs_names = pytest.mark.skipif(
    any(names.importlib.util.find_spec(name) is None for name in names.MODULES), reason="the optional part `ner` is not installed"
)


@pytest.mark.slow
@needs_names
def test_names_go_from_text_and_tokens_and_only_as_words(tokens: TokenBytes, encoder: Encoder) -> None:
    redactor = Redactor(b"k" * 32, MASK_ID, tokens, policy=RedactionPolicy(names=("PERSON",)))
    text = "My name is Hannah Miller and I wait for my order.\n我叫王小明，请联系我"
    prompt, output = encoder.chat(("user", text)), encoder.ids("Thank you, Hannah Miller! Not the Hannahs.<|im_end|>")
    asked, got = exchange([user(text)], "Thank you, Hannah Miller! Not the Hannahs.",
                          engine_record=record("r", prompt.tolist(), [output.tolist()]))  # fmt: skip
    rules = Rules(KeyedDigests(bytes(32)), redactor, AdmissionPolicy(), tokenizer="t", may_train=lambda *_: True)
    event = govern(RawExchange(asked, got), rules).event
    stored = b"".join(part.data for part in event.contents).decode()
    assert "My name is <PERSON_1>" in stored and "Thank you, <PERSON_1>!" in stored and "王小明" not in stored
    shown = encoder.text(np.frombuffer(event.tokens[0].record.prompt_ids, "<i4"))
    assert "Hannah" not in shown and "王小明" not in shown


@pytest.mark.slow
@needs_names
def test_names_past_the_deadline_fail_closed(tokens: TokenBytes) -> None:
    redactor = Redactor(b"k" * 32, MASK_ID, tokens, limit_s=0.0, policy=RedactionPolicy(names=("PERSON",)))
    with pytest.raises(RedactionFailed, match="timeout"):
        redactor.redact_text("Dear Hannah, how are you today?")
