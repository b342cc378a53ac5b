"""Decisions in words: how much redaction overwrote and what the limit is, and the sentence of a turn that may not train."""

from types import SimpleNamespace
from typing import Any

from dataproxy.admit import VAULT_ONLY, AdmissionPolicy
from dataproxy.console.decisions import against, because

POLICY = AdmissionPolicy(max_altered=0.15)


def decision(reason: str, choice: int = 0, policy: str = POLICY.version) -> Any:
    return SimpleNamespace(reason=reason, choice=choice, policy=policy)


def test_too_much_overwritten_is_said_with_how_much_and_the_limit() -> None:
    much = "(151 of 1,000 tokens, the prompt's included: 15.1 %; at most 15 % may be, by the setting max_altered)"
    assert because(decision("altered"), (151, 1000), POLICY) == f"redaction overwrote too much of it {much}"
    assert because(decision(VAULT_ONLY), (151, 1000), POLICY).endswith(f"lent from the vault {much}")
    erased = because(decision("altered"), None, POLICY)
    assert erased == "redaction overwrote too much of it (at most 15 % may be, by the setting max_altered)"


def test_the_limit_of_another_policy_is_not_told_for_that_of_now() -> None:
    said = because(decision("altered"), (2, 10), AdmissionPolicy(max_altered=0.3))
    assert "20 %; the limit of then is not known, now it is 30 %" in said and "may be" not in said


def test_another_reason_says_nothing_of_overwriting() -> None:
    assert because(decision("http_error"), (2, 10), POLICY) == "the answer was an error"


def test_a_turn_that_may_train_has_nothing_against_it() -> None:
    assert against([], {}, POLICY) == against([decision("eligible"), decision("eligible", 1)], {}, POLICY) == ""


def test_a_turn_that_may_not_train_says_so_in_one_sentence() -> None:
    assert against([decision("no_consent")], {}, POLICY) == "This turn may not train: no consent to train was on record."
    assert "(2 of 10 tokens" in against([decision("altered")], {0: (2, 10)}, POLICY)


def test_of_several_answers_it_is_said_which_may_not_train() -> None:
    several = [decision("truncated"), decision("eligible", 1), decision("truncated", 2), decision("altered", 3)]
    assert against(several, {3: (2, 10)}, POLICY).startswith(
        "3 of this turn's 4 answers may not train: choice 0, 2, because the answer was cut off by its length limit; "
        "choice 3, because redaction overwrote too much of it (2 of 10 tokens"
    )
