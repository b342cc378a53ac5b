"""Digests of token prefixes: one pass over the prompt serves its own beginnings and every choice's end."""

import numpy as np
import pytest

from dataproxy.assemble.borders import prompt_digests, token_digests
from dataproxy.digests import KeyedDigests


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_a_prompt_read_once_gives_the_digest_of_itself_and_each_output(cut: int) -> None:
    digests, ids = KeyedDigests(bytes(32)), np.arange(4, dtype=np.int32)
    found, with_output = prompt_digests(digests, ids[:cut], [1, 3])
    assert found == {n: token_digests(digests, ids, [n])[n] for n in (1, 3) if n <= cut}
    assert with_output(ids[cut:]) == token_digests(digests, ids, [4])[4]
