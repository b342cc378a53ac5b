"""Sends tensors to an engine over the network: a process group of two (gloo), the publisher as rank 0, the engine as rank 1.

Owns the sender's end, without importing SGLang. A group per engine and swap, so an engine that fails leaves no other waiting. For
engines that share neither memory nor a disk with the publisher. Not owned: which tensors (`ways`). Source: SGLang 0.5.23,
`utils/common.init_custom_process_group` (the names of keys in the store) and `weight_sync/tensor_bucket.py` (the form of a bucket).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from workers.inference.client.http import EngineClient
from workers.inference.errors import BroadcastFailed

if TYPE_CHECKING:
    import torch

GROUP_TIMEOUT_S: Final = 20.0
"""For joining and for each broadcast; below the engine's limit of a pause, whose watchdog would otherwise find it waiting."""


@dataclass(slots=True)
class Broadcast:
    """A group that both ends have joined."""

    name: str
    _group: Any
    _store: Any

    @staticmethod
    async def join(client: EngineClient, host: str = "127.0.0.1", timeout_s: float = GROUP_TIMEOUT_S) -> Broadcast:
        """Both ends join; `host` is this machine's address as the engine reaches it.

        Raises: BroadcastFailed, EngineRefused, EngineUnreachable.
        """
        name = f"headrace-{uuid4().hex[:12]}"
        try:
            store = await asyncio.to_thread(_open_store, host, timeout_s)
            asked = asyncio.create_task(client.join_group(host, store.port, name))
            joined = asyncio.create_task(asyncio.to_thread(_join, store, host, name, timeout_s))
            done, _ = await asyncio.wait((asked, joined), return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()  # an engine that refuses is said at once; our own end gives up by its time-out
            return Broadcast(name, await joined, store)
        except RuntimeError as error:  # what torch.distributed raises
            raise BroadcastFailed(f"no group of publisher and engine could be made: {error}") from error

    async def send(self, client: EngineClient, bucket: Mapping[str, torch.Tensor], version: str | None) -> None:
        """One bucket; the last one names the version. Raises as `join`."""
        flat = _flatten(list(bucket.values()))
        asked = asyncio.create_task(client.update_from_broadcast(self.name, _described(bucket), version))
        try:
            await asyncio.to_thread(_send, self._group, flat)
        except RuntimeError as error:
            asked.cancel()
            raise BroadcastFailed(f"the engine did not take part in a broadcast: {error}") from error
        await asked

    async def leave(self, client: EngineClient) -> None:
        """The engine lets go of its end; ours goes with this object. Raises EngineRefused, EngineUnreachable."""
        await client.leave_group(self.name)


def _open_store(host: str, timeout_s: float) -> Any:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # the stubs leave it out

    return TCPStore(host, 0, 2, True, timedelta(seconds=timeout_s), wait_for_workers=False)


def _join(store: Any, host: str, name: str, timeout_s: float) -> Any:
    from torch.distributed.distributed_c10d import PrefixStore, ProcessGroupGloo

    options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # the stubs leave it out
    options._devices = [ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = timedelta(seconds=timeout_s)
    keys = PrefixStore("cpu/", PrefixStore(f"{name}/", PrefixStore(name, store)))
    return ProcessGroupGloo(keys, 0, 2, options)


def _send(group: Any, flat: torch.Tensor) -> None:
    from torch.distributed.distributed_c10d import BroadcastOptions

    options = BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 0
    group.broadcast([flat], options).wait()


def _flatten(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    import torch

    return torch.cat([tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8) for tensor in tensors])


def _described(bucket: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {
        "names": list(bucket),
        "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in bucket.values()],
        "shapes": [list(tensor.shape) for tensor in bucket.values()],
    }
