"""What the gateway asks for pseudonyms with is what the data proxy reads, and so are the answers: one definition for both sides."""

from dataproxy.api import pseudonym_routes
from dataproxy.pseudonyms import substitute
from gateway.pseudonyms import ask, restore


def test_both_sides_speak_with_the_same_types() -> None:
    assert ask.ToPseudonymize is pseudonym_routes.ToPseudonymize
    assert ask.Pseudonymized is substitute.Pseudonymized
    assert ask.Form is restore.Form is substitute.Form
