"""The console's words: each name that a page may show has some."""

from dataproxy.admit import REASONS
from dataproxy.console.words import reason


def test_every_reason_of_a_decision_is_said_in_words() -> None:
    assert [name for name in REASONS if reason(name) in (name, name.replace("_", " "))] == []
