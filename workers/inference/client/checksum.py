"""Computes, from a version's own tensors, the checksum that an engine must report once it holds them.

Owns the fusion that SGLang applies when it loads a Llama-like model (q, k, v → qkv; gate, up → gate_up; a tied lm_head is no
parameter) and its hash on a CPU. Tensor parallel engines hold shards and CUDA engines hash otherwise: not covered.
Source: SGLang 0.5.23, `utils/weight_checker.py` and `managers/mm_utils.tensor_hash`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

_FUSED: Final = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_EMBEDDING: Final = "model.embed_tokens.weight"
_HEAD: Final = "lm_head.weight"


def expected_checksum(source: Mapping[str, torch.Tensor] | Path, dtype: str | None = None) -> str:
    """The engine's checksum (64 hex digits) of a Hugging Face state dict or of a directory with safetensors.

    `dtype` ("float32", "bfloat16") is the engine's, where it differs from the tensors' own.
    """
    import torch

    tensors = load_directory(source) if isinstance(source, Path) else source
    target = None if dtype is None else getattr(torch, dtype)
    parts = _fuse(without_tied_head(tensors))
    checksums = {name: _hash([tensors[part] for part in members], target) for name, members in parts.items()}
    overall = hashlib.sha256()
    for name in sorted(checksums):
        overall.update(name.encode())
        overall.update(checksums[name].encode())
    return hashlib.sha256(overall.hexdigest().encode()).hexdigest()  # over the ranks, of which there is one


def load_directory(directory: Path) -> dict[str, torch.Tensor]:
    """All tensors of a directory's safetensors files, by name."""
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        tensors.update(load_file(path))
    return tensors


def without_tied_head(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`tensors` without a `lm_head.weight` that is the embedding: a full FSDP2 state dict holds it twice."""
    import torch

    head, embedding = tensors.get(_HEAD), tensors.get(_EMBEDDING)
    tied = head is not None and embedding is not None and torch.equal(head, embedding)
    return {name: tensor for name, tensor in tensors.items() if not (tied and name == _HEAD)}


def _fuse(names: Mapping[str, object]) -> dict[str, list[str]]:
    """Engine parameter → the state dict's names whose rows it holds, in that order."""
    parts: dict[str, list[str]] = {}
    for name in names:
        stem, leaf, kind = _split(name)
        fused = next((whole for whole, members in _FUSED.items() if leaf in members), None)
        if fused is None:
            parts[name] = [name]
        else:
            parts[f"{stem}.{fused}.{kind}"] = [f"{stem}.{member}.{kind}" for member in _FUSED[fused]]
    return parts


def _split(name: str) -> tuple[str, str, str]:
    stem, _, kind = name.rpartition(".")
    stem, _, leaf = stem.rpartition(".")
    return stem, leaf, kind


def _hash(tensors: Sequence[torch.Tensor], dtype: torch.dtype | None) -> str:
    import torch

    digest = hashlib.sha256()
    for tensor in tensors:
        value = tensor.detach().to("cpu", dtype).contiguous()
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
