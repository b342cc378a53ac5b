"""The ways in which new weights reach an engine: through shared memory, from a disk that both see, or by broadcast.

Owns what each needs before the pause (so that it costs none) and sends within it. The last message of every way names the version,
so that a half-sent update never bears its name; checksum and version are read back the same (`swap`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from atdp import faults
from workers.inference.client.broadcast import Broadcast
from workers.inference.client.buckets import Bucket, in_buckets, make_buckets
from workers.inference.client.checksum import load_directory, without_tied_head
from workers.inference.client.http import EngineClient
from workers.inference.errors import InferenceError

if TYPE_CHECKING:
    import torch

Way = Literal["tensors", "disk", "distributed"]
Delivery = Way | Literal["adapter"]
"""A way for whole weights, or an adapter beside the weights that an engine holds (`adapters`)."""
Weights = Mapping[str, "torch.Tensor"] | Path

logger = logging.getLogger(__name__)


class Sender(Protocol):
    """One version on its way to one engine. Every method may raise InferenceError."""

    async def open(self, client: EngineClient) -> None:
        """What can be done while the engine still samples."""
        ...

    async def send(self, client: EngineClient, version: str) -> None:
        """All weights; the engine is paused and its update is open."""
        ...

    async def close(self, client: EngineClient) -> None:
        """Let go, whatever became of it; raises nothing."""
        ...


class FromMemory:
    """Flattened buckets in shared memory. The first is packed before the pause: imports and the memory it takes cost none."""

    def __init__(self, weights: Mapping[str, torch.Tensor], bucket_bytes: int) -> None:
        self._rest: Iterator[Bucket] = make_buckets(weights, bucket_bytes)
        self._first: Bucket | None = None

    async def open(self, client: EngineClient) -> None:
        """As Sender."""
        self._first = next(self._rest, None)

    async def send(self, client: EngineClient, version: str) -> None:
        """As Sender."""
        bucket, self._first = self._first, None
        while bucket is not None:
            following = next(self._rest, None)
            await client.update_from_tensors(bucket.payload, version if following is None else None)
            faults.point("swap.mid_tensors")
            bucket = following

    async def close(self, client: EngineClient) -> None:
        """As Sender."""


class FromDisk:
    """The engine reads the version's directory itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def open(self, client: EngineClient) -> None:
        """As Sender."""

    async def send(self, client: EngineClient, version: str) -> None:
        """As Sender."""
        await client.update_from_disk(self._directory, version)
        faults.point("swap.mid_tensors")

    async def close(self, client: EngineClient) -> None:
        """As Sender."""


class ByBroadcast:
    """Buckets through a process group of two, which is joined before the pause."""

    def __init__(self, weights: Mapping[str, torch.Tensor], bucket_bytes: int, host: str) -> None:
        self._buckets = in_buckets(weights, bucket_bytes)
        self._host = host
        self._group: Broadcast | None = None

    async def open(self, client: EngineClient) -> None:
        """As Sender."""
        self._group = await Broadcast.join(client, self._host)

    async def send(self, client: EngineClient, version: str) -> None:
        """As Sender."""
        assert self._group is not None
        bucket = next(self._buckets, None)
        while bucket is not None:
            following = next(self._buckets, None)
            await self._group.send(client, bucket, version if following is None else None)
            faults.point("swap.mid_tensors")
            bucket = following

    async def close(self, client: EngineClient) -> None:
        """As Sender."""
        if self._group is None:
            return
        try:
            await self._group.leave(client)
        except InferenceError as error:  # the engine's end goes with the engine
            logger.warning("the engine did not leave the group: %s", error)


def make_sender(weights: Weights, way: Way | None, bucket_bytes: int, host: str) -> Sender:
    """The sender of `weights`, a state dict or a version's directory, in `way`; None: in the one that needs no copy.

    Raises: ValueError where a state dict is to be read from a disk.
    """
    if way == "disk" or (way is None and isinstance(weights, Path)):
        if not isinstance(weights, Path):
            raise ValueError("the way `disk` needs a version's directory")
        return FromDisk(weights)
    tensors = load_directory(weights) if isinstance(weights, Path) else weights
    tensors = without_tied_head(tensors)
    return ByBroadcast(tensors, bucket_bytes, host) if way == "distributed" else FromMemory(tensors, bucket_bytes)
