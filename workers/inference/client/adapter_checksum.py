"""The checksum of a LoRA adapter, the same from its files and from what an engine holds of it.

Owns the fusion that SGLang applies when it loads an adapter (q, k, v → qkv; gate, up → gate_up; row after row, so that the fused
bytes are those of its parts) and the one checksum of base weights and adapter together. Used by publishers and, in SGLang's
scheduler, by `weight_guard`. Source: SGLang 0.5.23, `lora/lora.py`, `LoRAAdapter._normalize_weights`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

FUSED: Final = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
_TOGETHER: Final = "lora:"


def together(base: str, adapter: str) -> str:
    """One checksum of base weights and the adapter on them; told apart from that of merged weights by how it begins."""
    return _TOGETHER + hashlib.sha256(f"{base} {adapter}".encode()).hexdigest()


def is_together(checksum: str) -> bool:
    """Whether a checksum is of base weights with an adapter beside them."""
    return checksum.startswith(_TOGETHER)


def digest(tensors: Mapping[str, Sequence[torch.Tensor]], scaling: float) -> str:
    """SHA-256 over names and bytes, the tensors of one name row after row; `scaling` is alpha / rank."""
    import torch

    overall = hashlib.sha256(repr(float(scaling)).encode())
    for name in sorted(tensors):
        overall.update(name.encode())
        for tensor in tensors[name]:
            overall.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return overall.hexdigest()


def adapter_digest(directory: Path) -> str:
    """The digest of an adapter's files, as `peft` saves them."""
    from safetensors.torch import load_file

    config = json.loads((directory / "adapter_config.json").read_text())
    tensors = load_file(directory / "adapter_model.safetensors")
    fused: dict[str, list[torch.Tensor]] = {}
    for name, parts in _parts(tensors).items():
        fused[name] = [tensors[part] for part in parts]
    return digest(fused, config["lora_alpha"] / config["r"])


def _parts(names: Mapping[str, object]) -> dict[str, list[str]]:
    """The engine's name → the file's names whose rows it holds, in that order."""
    found: dict[str, list[str]] = {}
    for name in names:
        module = name.split(".")[-3]
        whole = next((whole for whole, parts in FUSED.items() if module in parts), None)
        if whole is None:
            found[name] = [name]
        else:
            found[name.replace(module, whole)] = [name.replace(module, part) for part in FUSED[whole]]
    return found
