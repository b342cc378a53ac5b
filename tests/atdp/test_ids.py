import time
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from atdp.ids import PREFIXES, mint_completion_id, new_event_id, verify_completion_id

names = st.text(max_size=20)


def test_event_ids_are_unique_and_are_version_7_uuids() -> None:
    ids = [new_event_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(len(i) == 32 and i[12] == "7" and i[16] in "89ab" for i in ids)


def test_event_ids_sort_by_the_time_they_were_made() -> None:

    stamps = [5_000_000, 1_700_000_000_000_000_000, 1_700_000_000_001_000_000, 1_900_000_000_000_000_000]
    ids = []
    for stamp in stamps:
        with patch.object(time, "time_ns", return_value=stamp):
            ids.append(new_event_id())
    assert ids == sorted(ids)


@given(st.binary(min_size=16, max_size=32), names)
def test_a_completion_id_gives_its_event_back_to_the_tenant_it_was_minted_for(secret: bytes, tenant: str) -> None:
    event_id = new_event_id()
    assert verify_completion_id(secret, tenant, mint_completion_id(secret, tenant, event_id)) == event_id


@given(names, names)
def test_another_tenants_completion_id_is_refused(one: str, other: str) -> None:
    secret = b"s" * 32
    minted = mint_completion_id(secret, one, new_event_id())
    assert (verify_completion_id(secret, other, minted) is None) == (one != other)


@given(st.integers(0, 56), st.sampled_from("0123456789abcdefX"))
def test_changing_any_character_makes_a_completion_id_forged(position: int, character: str) -> None:
    secret = b"s" * 32
    minted = mint_completion_id(secret, "acme", new_event_id())
    changed = minted[:position] + character + minted[position + 1 :]
    assert (verify_completion_id(secret, "acme", changed) is None) == (changed != minted)


@given(st.text(max_size=80))
def test_anything_else_is_refused(text: str) -> None:
    assert verify_completion_id(b"s" * 32, "acme", text) is None


@given(st.sampled_from(PREFIXES), st.sampled_from(PREFIXES))
def test_an_id_of_any_dialect_names_its_event(minted_as: str, shown_as: str) -> None:
    event_id = new_event_id()
    minted = mint_completion_id(b"s" * 32, "acme", event_id, minted_as)
    assert minted.startswith(minted_as)
    assert verify_completion_id(b"s" * 32, "acme", shown_as + minted.removeprefix(minted_as)) == event_id
    assert verify_completion_id(b"s" * 32, "other", minted) is None
