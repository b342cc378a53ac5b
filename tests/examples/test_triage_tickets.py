"""The tickets of examples.triage: the same every time, no two about one order, and with valid invented personal details."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from examples.triage.tickets import _HELD_OUT, _ORDER_PHRASES, _TRAIN, EXAMPLE_ORDER, Split, personal_values, tickets

SPLITS: tuple[Split, ...] = ("train", "held_out")


@pytest.mark.parametrize("split", SPLITS)
def test_tickets_are_the_same_every_time_and_each_names_its_own_order_once(split: Split) -> None:
    made = tickets(split)
    assert made == tickets(split)
    assert len({ticket.id for ticket in made}) == len({ticket.order for ticket in made}) == len(made)
    assert all(re.findall(rf"\b{ticket.order}\b", ticket.text) == [str(ticket.order)] for ticket in made)
    assert EXAMPLE_ORDER not in {ticket.order for ticket in made}


def test_held_out_sentences_and_orders_are_not_in_training() -> None:
    assert not set(_TRAIN) & set(_HELD_OUT)
    assert not set(_ORDER_PHRASES["train"]) & set(_ORDER_PHRASES["held_out"])
    assert not {ticket.order for ticket in tickets("train")} & {ticket.order for ticket in tickets("held_out")}


@pytest.mark.parametrize("split", SPLITS)
def test_a_third_of_the_tickets_hold_personal_values_that_are_listed(split: Split) -> None:
    made = tickets(split)
    listed = set(personal_values())
    share = sum(bool(ticket.personal) for ticket in made) / len(made)
    assert 0.28 <= share <= 0.45
    for ticket in made:
        assert set(ticket.personal) <= listed
        assert all(value in ticket.text for value in ticket.personal)
        rest = ticket.text
        for value in (*ticket.personal, str(ticket.order)):
            rest = rest.replace(value, "")
        assert "@" not in rest and not re.search(r"\d{4}", rest)


def test_personal_values_are_well_formed_and_of_every_kind() -> None:
    kinds: Counter[str] = Counter()
    for value in personal_values():
        if "@" in value:
            kinds["email"] += 1
            assert re.fullmatch(r"[a-z]+\d\d@example\.(com|org|net)", value)
        elif value.startswith("DE"):
            kinds["iban"] += 1
            digits = "".join(str(int(character, 36)) for character in value[4:] + value[:4])
            assert int(digits) % 97 == 1
        elif "-" in value:
            kinds["phone"] += 1
            assert re.fullmatch(r"\d{3}-555-01\d\d", value)
        else:
            kinds["card"] += 1
            assert len(value) == 16 and _luhn_sum(value) % 10 == 0
    assert set(kinds) == {"email", "phone", "card", "iban"}


def _luhn_sum(digits: str) -> int:
    doubled = [int(digit) * (2 if position % 2 else 1) for position, digit in enumerate(reversed(digits))]
    return sum(number // 10 + number % 10 for number in doubled)
