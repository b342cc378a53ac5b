"""Ships tensors to an engine on the same machine: flattened, through shared memory, in buckets of bounded size.

Owns the form that SGLang's `/update_weights_from_tensor` unpickles, without importing SGLang (which patches transformers and
takes seconds). Not owned: which tensors (`swap`). Source: SGLang 0.5.23, `weight_sync/tensor_bucket.py`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from workers.inference.errors import SharedMemoryFailed

if TYPE_CHECKING:
    import torch

BUCKET_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Bucket:
    """`payload` refers to the shared memory of `flat`, which must live until the engine has answered."""

    payload: str
    flat: torch.Tensor


def make_buckets(tensors: Mapping[str, torch.Tensor], bucket_bytes: int = BUCKET_BYTES) -> Iterator[Bucket]:
    """Yield the tensors as `in_buckets` divides them, packed; one exists at a time if the caller lets go of the one before.

    Each may raise SharedMemoryFailed.
    """
    return map(_pack, in_buckets(tensors, bucket_bytes))


def in_buckets(tensors: Mapping[str, torch.Tensor], bucket_bytes: int = BUCKET_BYTES) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the tensors in order, divided into parts of about `bucket_bytes`; a larger tensor travels alone."""
    waiting: dict[str, torch.Tensor] = {}
    size_bytes = 0
    for name, tensor in tensors.items():
        if waiting and size_bytes + tensor.nbytes > bucket_bytes:
            yield waiting
            waiting, size_bytes = {}, 0
        waiting[name] = tensor
        size_bytes += tensor.nbytes
    if waiting:
        yield waiting


def _pack(tensors: Mapping[str, torch.Tensor]) -> Bucket:
    import torch

    metadata, flattened, start = [], [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8)
        end = start + data.numel()
        metadata.append(
            SimpleNamespace(
                name=name, shape=tuple(tensor.shape), dtype=tensor.dtype, start_idx=start, end_idx=end, numel=end - start
            )
        )
        flattened.append(data)
        start = end
    try:
        flat = torch.cat(flattened)
        return Bucket(_pickle({"flattened_tensor": flat, "metadata": metadata}), flat)
    except RuntimeError as error:  # what torch raises
        raise SharedMemoryFailed(
            f"{start} bytes did not get into shared memory: {error}; make room in /dev/shm, or try HEADRACE_TRAINER_SWAP=disk"
        ) from error


def _pickle(content: object) -> str:
    """Pickle with the tensor in a named file of /dev/shm: with torch's default, a passed descriptor, the engine dies."""
    import torch.multiprocessing as mp

    before = mp.get_sharing_strategy()  # type: ignore[no-untyped-call]
    mp.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
    try:
        buffer = io.BytesIO()
        ForkingPickler(buffer).dump(content)
    finally:
        mp.set_sharing_strategy(before)  # type: ignore[no-untyped-call]
    return base64.b64encode(buffer.getvalue()).decode()
