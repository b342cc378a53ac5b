"""Single traps of the kinds that need a word, a checksum or a name before them: what is found, and what is left alone."""

import pytest

from dataproxy.redact.detector import Detector
from dataproxy.redact.name_cues import named_by_cue, named_by_rarity
from dataproxy.redact.rules.crypto import base58check, bech32


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(b"test")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("passport no: X1234567", [("PASSPORT", "X1234567")]),
        ("护照号E12345678，谢谢", [("PASSPORT", "E12345678")]),
        ("ticket X1234567", []),
        ("P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", [("PASSPORT", "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<")]),
        ("my ssn is 123456789", [("SSN", "123456789")]),
        ("order 123456789", []),
        ("ITIN 912-71-1234", [("SSN", "912-71-1234")]),
        ("912-12-1234", []),
        ("to 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2.", [("CRYPTO", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2")]),
        ("to 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3.", []),
        ("0x" + "ab12" * 10, [("CRYPTO", "0x" + "ab12" * 10)]),
        ("0x" + "ab12" * 16, []),
        ("DB_PASSWORD=correcthorse", [("SECRET", "correcthorse")]),
        ("export STRIPE_SECRET_KEY='whatever-it-is'", [("SECRET", "whatever-it-is")]),
        ("PASSWORD=${DB_PASSWORD}", []),
        ("SECRET_KEY=<your key here>", []),
        ("MAX_TOKENS=100000", []),
        ('{"client_secret": "correct horse battery"}', [("SECRET", "correct horse battery")]),
        ('{\\"password\\": \\"correcthorse1\\"}', [("SECRET", "correcthorse1")]),
        ('{"password": {"type": "string"}}', []),
        ('{"type": "password", "token": "string"}', []),
        ("Cookie: sid=a1b2c3d4e5f6", [("SECRET", "sid=a1b2c3d4e5f6")]),
        ("https://b.example/x?X-Amz-Signature=abcdef0123456789&a=1", [("SECRET", "abcdef0123456789")]),
        ("https://b.example/x?code=documentation", []),
        ("https://bob:hunter2@example.com/x", [("CONNECTION_STRING", "https://bob:hunter2@example.com/x")]),
        ("cc 501812345673", [("CARD", "501812345673")]),
        ("id 501812345673", []),
    ],
)
def test_what_is_found_and_what_is_left_alone(detector: Detector, text: str, expected: list[tuple[str, str]]) -> None:
    assert [(d.kind, text[d.start : d.end]) for d in detector.detect(text)] == expected


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-" + "aB3" * 16, "gsk_" + "aB3d" * 13, "xai-" + "aB3d" * 20, "hf_" + "aB3d" * 9, "github_pat_" + "aB3d" * 20,
        "glpat-" + "aB3d" * 5, "nvapi-" + "aB3d" * 16, "r8_" + "aB3d" * 10, "dop_v1_" + "ab34" * 16, "shpat_" + "ab34" * 8,
        "pypi-AgEIcHlwaS5vcmc" + "aB3d" * 12, "1234567890:AA" + "aB3d" * 8 + "a", "hvs." + "aB3d" * 8, "dapi" + "ab34" * 8,
        "GOCSPX-" + "aB3d" * 7, "lsv2_pt_" + "ab34" * 8 + "_ab34ab34ab", "AGE-SECRET-KEY-1" + "Q2" * 29,
        "https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/" + "aB3d" * 6,
    ],
)  # fmt: skip
def test_keys_of_providers_are_found_by_their_prefix(detector: Detector, key: str) -> None:
    text = f"use {key} now"
    (found,) = detector.detect(text)
    assert found.kind == "API_KEY" and key.endswith(text[found.start : found.end]) and found.end == 4 + len(key)


def test_checksums_of_addresses_against_published_ones() -> None:
    assert base58check(b"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy") and not base58check(b"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLz")
    assert bech32(b"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4")  # BIP 173
    assert bech32(b"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0")  # BIP 350
    assert not bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("My name is Ana de la Cruz and I wait", ["Ana de la Cruz"]),
        ("Dear Mr. Okafor,", ["Okafor"]),
        ("Hi Wei,", ["Wei"]),
        ("I am Sorry", []),
        ("This is The End", []),
    ],
)
def test_people_are_named_by_the_words_around_them(line: str, expected: list[str]) -> None:
    assert sorted({line[start:end] for start, end in named_by_cue(line)}) == expected


def test_a_row_of_words_with_capitals_is_a_name_if_one_of_them_is_rare() -> None:
    known = {"new", "York", "york", "New", "City", "city"}
    line = "In New York City I met Wilfredo Portero."
    assert [line[start:end] for start, end in named_by_rarity(line, known)] == ["Wilfredo Portero"]
