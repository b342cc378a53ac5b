"""The fake engine's end of a process group with the publisher: real gloo, with the keys that SGLang uses in the store."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

_TIMEOUT = timedelta(seconds=30)


class Groups:
    """Groups by name. Methods block: call them in a thread. torch raises RuntimeError where the other end is gone."""

    def __init__(self) -> None:
        self._groups: dict[str, Any] = {}

    def join(self, body: Mapping[str, Any]) -> None:
        """As `/init_weights_update_group`."""
        from torch.distributed import PrefixStore, TCPStore
        from torch.distributed.distributed_c10d import ProcessGroupGloo

        host, name = body["master_address"], body["group_name"]
        store = TCPStore(host, body["master_port"], body["world_size"], False, _TIMEOUT, wait_for_workers=False)
        options = ProcessGroupGloo._Options()
        options._devices, options._timeout = [ProcessGroupGloo.create_device(hostname=host)], _TIMEOUT
        keys = PrefixStore("cpu/", PrefixStore(f"{name}/", PrefixStore(name, store)))
        self._groups[name] = (ProcessGroupGloo(keys, body["rank_offset"], body["world_size"], options), store)

    def receive(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of one flattened bucket, by name."""
        import torch
        from torch.distributed.distributed_c10d import BroadcastOptions

        dtypes = [getattr(torch, name) for name in body["dtypes"]]
        shapes = [torch.Size(shape) for shape in body["shapes"]]
        sizes = [shape.numel() * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        flat = torch.empty(sum(sizes), dtype=torch.uint8)
        options = BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._groups[body["group_name"]][0].broadcast([flat], options).wait()
        parts = zip(flat.split(sizes), dtypes, shapes, strict=True)
        return dict(zip(body["names"], (part.view(dtype).reshape(shape).clone() for part, dtype, shape in parts), strict=True))

    def leave(self, name: str) -> bool:
        """As `/destroy_weights_update_group`; whether it was there."""
        return self._groups.pop(name, None) is not None
