"""The process group: who this rank is, and the few things that ranks tell each other.

Owns start-up of torch.distributed: gloo on a CPU, NCCL beside it on a GPU, the same code above. Under torchrun the rendezvous
comes from the environment; without it there is one rank and no network.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

T = TypeVar("T")

_PATIENCE: Final = timedelta(hours=1)
"""How long ranks wait for one another in one collective; the first rank's slowest phase is a swap, of seconds."""


@dataclass(slots=True, frozen=True)
class Ranks:
    """This rank among `world_size`, its device, and the mesh that weights are sharded over."""

    rank: int
    world_size: int
    device: torch.device
    mesh: DeviceMesh

    @property
    def is_first(self) -> bool:
        """Whether this rank talks to the data proxy and the engines."""
        return self.rank == 0

    def share(self, data: bytes | None) -> bytes:
        """Give the first rank's `data` to all; the others pass None."""
        if self.world_size == 1:
            assert data is not None
            return data
        box = [data]
        dist.broadcast_object_list(box, src=0)
        assert box[0] is not None
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Everybody's `value`, in rank order, on every rank."""
        values: list[T] = [value] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until every rank is here."""
        if self.world_size > 1:
            dist.barrier()


def start_ranks() -> Ranks:
    """Join the process group; call once, at the start of the process."""
    use_gpu = torch.cuda.is_available()
    backend = "cpu:gloo,cuda:nccl" if use_gpu else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend, timeout=_PATIENCE)
    else:
        dist.init_process_group(backend, timeout=_PATIENCE, store=HashStore(), rank=0, world_size=1)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    return Ranks(dist.get_rank(), dist.get_world_size(), device, mesh)


def stop_ranks() -> None:
    """Leave the process group."""
    dist.destroy_process_group()


def end_process(status: int) -> NoReturn:
    """Leave the process with ``status``, output flushed and nothing finalised.

    Threads of torch's process group may still let go of Python objects; while the interpreter is being finalised such a thread ends
    the process by "terminate called without an active exception", and finished work would be told as a crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
