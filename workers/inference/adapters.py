"""Serves LoRA adapters as versions: new requests get the newest, running ones keep theirs. Runs in SGLang's HTTP process.

Owns which adapter a request of ours samples with, the version that its tokens are stamped with (SGLang stamps that of its base
weights), and letting go of an adapter that no request uses any more. An adapter belongs to the base weights that it was trained
on: while others are put in it is set aside, and back if those are undone. Not owned: the tensors (SGLang's LoRA manager), their
checksum (`weight_guard`), what a publisher does around it (`client.adapters`). Place in the path: step 3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import msgspec
from sglang.srt.managers.io_struct import CheckWeightsReqInput, LoadLoRAAdapterReqInput, UnloadLoRAAdapterReqInput

from workers.inference.client.adapter_checksum import together

ADAPTER_ACTION: Final = "headrace.adapter:"
"""Action of `/weights_checker`, with an adapter's name after it: the answer's message is the adapter's digest."""

_UNLOAD_LIMIT_S: Final = 60.0

logger = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """`POST /headrace/adapter`: serve `version`, whose adapter lies in `directory`, has `digest` and belongs to `base`."""

    version: str
    base: str
    directory: str
    digest: str


class AdapterRefused(Exception):
    """The adapter does not serve, and what served goes on serving. `status` is the answer's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Held:
    """A loaded adapter; `name` is SGLang's, another at each load, so that a version may be loaded again while it is let go."""

    name: str
    version: str
    base: str
    num_requests: int = 0

    def stamp(self, meta: dict[str, Any]) -> bool:
        """Name the version in an output's `meta_info`; False where a part of it was sampled with other base weights."""
        spans = meta.get("weight_versions") or []
        if any(span["version"] not in (self.base, self.version) for span in spans):
            return False
        for span in spans:
            span["version"] = self.version
        meta["weight_version"] = self.version
        return True


class Adapters:
    """The adapters of one engine. Single-threaded: lives on the engine's event loop."""

    def __init__(self) -> None:
        self.serving: Held | None = None
        self._aside: Held | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def version(self, manager: Any) -> str:
        """The version that serves: the adapter's, else the base weights' own."""
        return self.serving.version if self.serving is not None else str(manager.config_value("weight_version"))

    async def take(self, manager: Any, wanted: Wanted) -> None:
        """Let new requests sample with `wanted`. Nothing pauses: those that run go on with what they began with.

        Raises: AdapterRefused; 409 where the adapter is not the one that it says.
        """
        self._check_base(manager, wanted)
        held = Held(f"{wanted.version}-{uuid4().hex[:8]}", wanted.version, wanted.base)
        loaded = await manager.load_lora_adapter(LoadLoRAAdapterReqInput(lora_name=held.name, lora_path=wanted.directory))
        if not loaded.success:
            raise AdapterRefused(f"{wanted.version} cannot be loaded: {loaded.error_message}")
        try:
            found = await self.digest(manager, held)
            if found != wanted.digest:
                raise AdapterRefused(f"the engine holds {found}, the adapter of {wanted.version} is {wanted.digest}", 409)
            self._check_base(manager, wanted)
        except AdapterRefused:
            self._let_go(manager, held)
            raise
        before, self.serving = self.serving, held
        self._let_go_if_unused(manager, before)

    def begin(self) -> Held | None:
        """What a request that begins now samples with; `end` must follow."""
        if self.serving is not None:
            self.serving.num_requests += 1
        return self.serving

    def end(self, manager: Any, held: Held | None) -> None:
        """A request is over."""
        if held is not None:
            held.num_requests -= 1
            self._let_go_if_unused(manager, held)

    def set_aside(self) -> None:
        """Other base weights are being put in: from here on new requests get no adapter."""
        self._aside, self.serving = self._aside or self.serving, None

    def put_back(self) -> None:
        """The base weights are what they were."""
        if self._aside is not None:
            self._aside, self.serving = None, self._aside

    def forget(self, manager: Any) -> None:
        """Other base weights serve: what was set aside belongs to none."""
        aside, self._aside = self._aside, None
        self._let_go_if_unused(manager, aside)

    async def around_check(self, original: Callable[..., Any], manager: Any, request: Any, *args: Any) -> Any:
        """The checksum of an engine with an adapter is of both."""
        success, message, ranks, checksum = await original(manager, request, *args)
        if request.action == "checksum" and checksum is not None and self.serving is not None:
            try:
                checksum = together(checksum, await self.digest(manager, self.serving))
            except AdapterRefused as error:
                return False, str(error), None, None
        return success, message, ranks, checksum

    async def digest(self, manager: Any, held: Held) -> str:
        """Of the tensors that the scheduler holds. Raises: AdapterRefused where it holds none of that name."""
        success, message, *_ = await manager.check_weights(CheckWeightsReqInput(action=ADAPTER_ACTION + held.name))
        if not success:
            raise AdapterRefused(str(message), 409)
        return str(message)

    def _check_base(self, manager: Any, wanted: Wanted) -> None:
        if not manager.enable_lora:
            raise AdapterRefused(
                "this engine serves no adapters: start it with --enable-lora, --max-lora-rank and --lora-target-modules"
            )
        base = manager.config_value("weight_version")
        if base != wanted.base or self._aside is not None:
            raise AdapterRefused(f"the adapter of {wanted.version} belongs to {wanted.base}, and the engine holds {base}", 409)

    def _let_go_if_unused(self, manager: Any, held: Held | None) -> None:
        if held is not None and not held.num_requests and held is not self.serving and held is not self._aside:
            self._let_go(manager, held)

    def _let_go(self, manager: Any, held: Held) -> None:
        task = asyncio.get_running_loop().create_task(_unload(manager, held.name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _unload(manager: Any, name: str) -> None:
    """SGLang waits until none of its own counts uses it, and loads nothing meanwhile: not for ever."""
    try:
        async with asyncio.timeout(_UNLOAD_LIMIT_S):
            gone = await manager.unload_lora_adapter(UnloadLoRAAdapterReqInput(lora_name=name))
    except TimeoutError:
        logger.error("the adapter %s is in use for more than %g s and stays loaded", name, _UNLOAD_LIMIT_S)
        return
    if not gone.success:
        logger.error("the adapter %s was not unloaded: %s", name, gone.error_message)
