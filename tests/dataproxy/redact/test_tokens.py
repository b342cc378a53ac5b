"""The id → bytes table against the real tokenizer."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.redact import InvalidTokenizer, RedactionFailed, TokenBytes
from tests.dataproxy.redact.encoder import Encoder

TEXTS = st.text(alphabet=st.characters(max_codepoint=0x1FFFF, exclude_categories=["Cs"]), max_size=60)
"""Without the planes whose lead bytes this vocabulary lacks: encoding drops them, and half a character is left."""


@given(data=st.data())
def test_decoded_bytes_are_the_tokenizers_text(data: st.DataObject, tokens: TokenBytes, encoder: Encoder) -> None:
    ids = encoder.ids(data.draw(TEXTS))
    assert tokens.decode(ids)[0].decode() == encoder.text(ids)


def test_offsets_cut_the_bytes_into_tokens(tokens: TokenBytes, encoder: Encoder) -> None:
    ids = encoder.ids("<|im_start|>user\n日本語 😀 é")
    data, offsets = tokens.decode(ids)
    pieces = [data[start:end] for start, end in pairwise(offsets)]
    assert pieces[0] == b"<|im_start|>"
    assert len(pieces) == len(ids)
    assert b"".join(pieces) == "<|im_start|>user\n日本語 😀 é".encode()


@pytest.mark.parametrize("index", [-1, 49152])
def test_an_id_outside_the_table_fails(tokens: TokenBytes, index: int) -> None:
    with pytest.raises(RedactionFailed, match="unknown_token"):
        tokens.decode(np.array([5, index], np.int32))


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"decoder": {"type": "Metaspace"}, "model": {"vocab": {"a": 0}}, "added_tokens": []}))
    with pytest.raises(InvalidTokenizer):
        TokenBytes.from_file(path)
