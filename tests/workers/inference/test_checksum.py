"""The publisher's checksum against hashes made by hand, and against what an engine would not count."""

import hashlib
from pathlib import Path

import torch
from safetensors.torch import save_file

from workers.inference.client import expected_checksum
from workers.inference.client.buckets import make_buckets

LAYER = "model.layers.0."


def state_dict() -> dict[str, torch.Tensor]:
    names = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    tensors = {f"{LAYER}{name}.weight": torch.full((2, 3), float(at)) for at, name in enumerate(names)}
    return {"model.embed_tokens.weight": torch.ones(4, 3), **tensors}


def by_hand(parts: dict[str, torch.Tensor]) -> str:
    """SGLang's rule, written out: 8 bytes of SHA-256 a parameter, then names and hashes in order, then over the ranks."""
    lines = [name + hashlib.sha256(value.numpy().tobytes()).hexdigest()[:16] for name, value in sorted(parts.items())]
    return hashlib.sha256(hashlib.sha256("".join(lines).encode()).hexdigest().encode()).hexdigest()


def test_the_checksum_is_that_of_the_fused_parameters() -> None:
    fused = {
        "model.embed_tokens.weight": torch.ones(4, 3),
        f"{LAYER}self_attn.qkv_proj.weight": torch.tensor([[0.0] * 3] * 2 + [[1.0] * 3] * 2 + [[2.0] * 3] * 2),
        f"{LAYER}mlp.gate_up_proj.weight": torch.tensor([[3.0] * 3] * 2 + [[4.0] * 3] * 2),
        f"{LAYER}mlp.down_proj.weight": torch.full((2, 3), 5.0),
    }
    assert expected_checksum(state_dict()) == by_hand(fused)


def test_a_tied_head_does_not_count_and_an_untied_one_does() -> None:
    tied = {**state_dict(), "lm_head.weight": torch.ones(4, 3)}
    untied = {**state_dict(), "lm_head.weight": torch.zeros(4, 3)}
    assert expected_checksum(tied) == expected_checksum(state_dict()) != expected_checksum(untied)


def test_a_directory_and_its_tensors_have_one_checksum(tmp_path: Path) -> None:
    save_file(state_dict(), tmp_path / "model.safetensors")
    assert expected_checksum(tmp_path) == expected_checksum(state_dict())


def test_the_engines_dtype_decides() -> None:
    halves = {name: tensor.to(torch.bfloat16) for name, tensor in state_dict().items()}
    assert expected_checksum(state_dict(), "bfloat16") == expected_checksum(halves) != expected_checksum(state_dict())


def test_any_changed_number_changes_it() -> None:
    for name in state_dict():
        changed = state_dict()
        changed[name][0, 0] += 1
        assert expected_checksum(changed) != expected_checksum(state_dict())


def test_buckets_are_bounded_and_hold_every_tensor_once() -> None:
    tensors = {f"t{at}": torch.full((10,), at, dtype=torch.float32) for at in range(7)}
    sizes = [bucket.flat.numel() for bucket in make_buckets(tensors, bucket_bytes=100)]
    assert sizes == [80, 80, 80, 40]
    assert [bucket.flat.numel() for bucket in make_buckets(tensors, bucket_bytes=10)] == [40] * 7
    assert list(make_buckets({})) == []
