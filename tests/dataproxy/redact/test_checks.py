"""Check digits, against numbers published as examples."""

import pytest

from dataproxy.redact.rules.checks import card_number, cn_resident_id, iban, luhn


def test_luhn_accepts_the_number_of_its_patent_and_refuses_its_neighbours() -> None:
    assert luhn(b"79927398713")
    assert [digit for digit in range(10) if luhn(b"7992739871%d" % digit)] == [3]


@pytest.mark.parametrize(
    "digits", [b"4111111111111111", b"5555555555554444", b"378282246310005", b"6011111111111117", b"4222222222222"]
)
def test_published_test_cards_are_cards(digits: bytes) -> None:
    assert card_number(digits)


@pytest.mark.parametrize(
    "digits", [b"1111111111111117", b"0000000000000000", b"41111111111111", b"4111111111111112", b"9792020000000001"]
)
def test_an_unknown_issuer_a_wrong_length_or_check_digit_is_no_card(digits: bytes) -> None:
    assert not card_number(digits)


@pytest.mark.parametrize("value", [b"DE89370400440532013000", b"GB82WEST12345698765432", b"NO9386011117947"])
def test_the_registrys_sample_ibans_are_ibans(value: bytes) -> None:
    assert iban(value)


@pytest.mark.parametrize("value", [b"DE89370400440532013001", b"DE8937040044053201300", b"ZZ89370400440532013000"])
def test_a_changed_digit_a_lost_digit_or_an_unknown_country_is_no_iban(value: bytes) -> None:
    assert not iban(value)


def test_a_resident_id_needs_a_birthday_and_its_check_character() -> None:
    assert cn_resident_id(b"11010519491231002X")
    assert not cn_resident_id(b"110105194912310021")
    assert not cn_resident_id(b"11010519491331002X")
