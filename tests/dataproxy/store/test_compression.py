"""What is packed comes back, whatever packed it; nothing grows but what looks packed already."""

from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.store import dictionaries
from dataproxy.store.compression import MAGIC, compress, compress_array, decompress
from dataproxy.store.dictionaries import train

MESSAGE = b'{"role":"user","content":"Please help me with my order: the invoice is missing and nobody could say where it is."}'


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=40).map(lambda rest: MAGIC + rest), st.just(MESSAGE)))
def test_what_is_packed_comes_back(data: bytes) -> None:
    for packed in (compress(data), compress_array(data)):
        assert decompress(packed) == data
        assert len(packed) <= len(data) or data.startswith(MAGIC)


def test_frames_of_earlier_stores_without_a_dictionary_can_be_read() -> None:
    assert decompress(zstandard.ZstdCompressor(level=3).compress(MESSAGE)) == MESSAGE


def test_the_dictionary_makes_a_short_message_much_shorter() -> None:
    assert len(compress(MESSAGE)) < 0.7 * len(zstandard.ZstdCompressor(level=3).compress(MESSAGE))


@pytest.mark.slow
def test_the_dictionary_is_the_one_that_the_seed_gives(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """So nothing but the synthetic words of ``train`` can be in it."""
    shipped = Path(dictionaries.__file__).parent / "1795.zdict"
    monkeypatch.setattr(train, "__file__", str(tmp_path / "train.py"))
    train.main(1795)
    assert (tmp_path / "1795.zdict").read_bytes() == shipped.read_bytes()
