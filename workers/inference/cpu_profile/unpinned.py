"""Lets SGLang's LoRA run without an accelerator: it asks for pinned host memory, which torch refuses there.

Owns the replacement of torch's makers of tensors by ones that drop `pin_memory`. Only in an engine on a CPU that was started with
`--enable-lora`; plain memory is what its copies read there in any case. Source: SGLang 0.5.23, `srt/lora/layers.py`, line 475.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch

_MAKERS: Final = ("tensor", "empty", "zeros", "ones", "arange", "full")


def unpin() -> None:
    """Make every pinned tensor of this process a plain one."""
    for name in _MAKERS:
        setattr(torch, name, _plain(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, *_: self  # type: ignore[method-assign]


def _plain(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(make)
    def made(*arguments: Any, **options: Any) -> torch.Tensor:
        options.pop("pin_memory", None)
        return make(*arguments, **options)

    return made
