"""Attention of a padded batch is that of each request by itself, and what padding does not suit is left to SGLang."""

from typing import Any

import pytest
import torch
from torch import Tensor

from workers.inference.cpu_profile.batched_decode import BatchedDecode

SIZE, SLOTS = 16, 600


def refuse(*_: Any, **__: Any) -> Tensor:
    raise AssertionError("left to SGLang")


def batch(lens: list[int], heads: int, key_heads: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    torch.manual_seed(len(lens))
    places = torch.randperm(SLOTS - 1)[: sum(lens)] + 1
    req_to_token = torch.full((len(lens) + 3, 200), SLOTS - 1, dtype=torch.int32)  # what lies behind an end is anything
    indices = torch.randperm(len(lens) + 3)[: len(lens)]
    for row, mine in zip(indices.tolist(), places.split(lens), strict=True):
        req_to_token[row, : len(mine)] = mine.int()
    return {
        "query": torch.randn(len(lens), heads, SIZE, dtype=dtype),
        "output": torch.full((len(lens), heads, SIZE), torch.nan, dtype=dtype),
        "k_cache": torch.randn(SLOTS, key_heads, SIZE, dtype=dtype),
        "v_cache": torch.randn(SLOTS, key_heads, SIZE, dtype=dtype),
        "req_to_token": req_to_token,
        "req_pool_indices": indices,
        "seq_lens": torch.tensor(lens),
    }


def reference(given: dict[str, Tensor], scale: float) -> Tensor:
    """Softmax by hand in float64, a request and a head at a time."""
    found, shared = [], given["query"].shape[1] // given["k_cache"].shape[1]
    for number, length in enumerate(given["seq_lens"].tolist()):
        slots = given["req_to_token"][given["req_pool_indices"][number], :length].long()
        for head in range(given["query"].shape[1]):
            keys, values = (given[name][slots, head // shared].double() for name in ("k_cache", "v_cache"))
            found.append(torch.softmax(keys @ given["query"][number, head].double() * scale, 0) @ values)
    return torch.stack(found).view(given["query"].shape)


@pytest.mark.parametrize("lens", [[1], [37], [5, 90, 1, 44], [3] * 12])
@pytest.mark.parametrize(("heads", "key_heads"), [(9, 3), (4, 4)])
def test_each_request_attends_to_its_own_tokens_alone(lens: list[int], heads: int, key_heads: int) -> None:
    decode, given = BatchedDecode(), batch(lens, heads, key_heads)
    given["k_cache"][SLOTS - 1] = torch.nan
    given["v_cache"][0] = 1e4
    for _layer in range(2):
        found = decode.around_decode(refuse, None, **given, scaling=0.3, enable_gqa=True, causal=False)
        assert found is given["output"]
        torch.testing.assert_close(found.double(), reference(given, 0.3), rtol=1e-5, atol=1e-6)


def test_the_next_forward_pass_sees_its_own_lengths() -> None:
    decode, given = BatchedDecode(), batch([5, 9], 4, 4)
    decode.around_decode(refuse, None, **given, scaling=0.3)
    given["seq_lens"] -= 2  # the same tensor, as a scheduler may advance it in place
    decode.around_metadata(lambda *_: None, None, None)
    found = decode.around_decode(refuse, None, **given, scaling=0.3)
    torch.testing.assert_close(found.double(), reference(given, 0.3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"encoder_lens": torch.ones(2)}, {"is_cross_attn": True}, {"sliding_window_size": 4}],
    ids=lambda one: next(iter(one)),
)
def test_what_is_not_plain_is_left_to_sglang(options: dict[str, Any]) -> None:
    given, marker = batch([5, 9], 4, 4), torch.zeros(1)
    assert BatchedDecode().around_decode(lambda *_, **__: marker, None, **given, **options) is marker


def test_a_batch_of_one_long_and_many_short_requests_is_left_to_sglang() -> None:
    given, marker = batch([2] * 60 + [199], 4, 4), torch.zeros(1)
    assert BatchedDecode().around_decode(lambda *_, **__: marker, None, **given) is marker
