"""Talks to one engine's control routes.

Owns the wire form of each call and the meaning of its failures. Not owned: the order of calls in a swap (`swap`), and anything
that agents send, which the gateway relays. Source: SGLang 0.5.23, `entrypoints/http_server.py`.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import httpx
import msgspec

from workers.inference.client.tls import trust
from workers.inference.errors import EngineRefused, EngineUnreachable

PauseMode = Literal["abort", "retract", "in_place"]

RESTORE_ACTION: Final = "headrace.restore"
DEFAULT_TIMEOUT_S: Final = 60.0


class EngineState(msgspec.Struct, frozen=True):
    """`GET /headrace/engine`: made by the plug-in. `missing_hooks` is empty in an engine that records."""

    engine: dict[str, str]
    missing_hooks: list[str]
    weight_version: str
    dtype: str
    paused: bool
    update: str
    num_in_flight: int
    num_aborted: int
    num_pauses_expired: int
    instance: str = ""
    """Another one after each start of the engine."""
    num_received: int = 0
    """Requests for generation since its start."""
    base_version: str = ""
    """The version of its own weights; another than `weight_version` where an adapter on them serves as that."""


class EngineClient:
    """One engine. Use as an async context manager, or call `aclose`.

    Every method raises EngineUnreachable where no answer came, EngineRefused where the engine said no.
    """

    def __init__(self, url: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout_s, trust_env=False, verify=trust())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ready(self) -> bool:
        """True where the engine takes requests now; a paused engine is not ready."""
        try:
            return (await self._http.get("/ready")).status_code == 200
        except httpx.TransportError:
            return False

    async def state(self) -> EngineState:
        response = await self._call("GET", "/headrace/engine")
        return msgspec.json.decode(response.content, type=EngineState)

    async def model_info(self) -> dict[str, Any]:
        return dict((await self._call("GET", "/model_info")).json())

    async def weight_version(self) -> str:
        """The version that the engine stamps on tokens it samples now."""
        return str((await self.model_info())["weight_version"])

    async def loads(self) -> list[dict[str, Any]]:
        """One snapshot of load per scheduler; up to some seconds old while the engine idles."""
        return list((await self._call("GET", "/v1/loads")).json()["loads"])

    async def abort(self, rid: str) -> None:
        """End a generation; no error if there is none of that rid."""
        await self._call("POST", "/abort_request", {"rid": rid})

    async def pause(self, mode: PauseMode = "retract") -> None:
        """Stop sampling. `retract` keeps every request, gives its KV cache back and computes it anew later."""
        await self._call("POST", "/pause_generation", {"mode": mode})

    async def resume(self) -> None:
        await self._call("POST", "/continue_generation", {"torch_empty_cache": False})

    async def flush(self) -> None:
        await self._call("POST", "/flush_cache")

    async def begin_update(self) -> None:
        await self._call("POST", "/begin_weight_update", {})

    async def end_update(self) -> None:
        await self._call("POST", "/end_weight_update", {})

    async def update_from_tensors(self, payload: str, version: str | None) -> None:
        """One flattened bucket (`buckets.Bucket.payload`); the last one names the version and flushes the prefix cache."""
        body = {
            "serialized_named_tensors": [payload],
            "load_format": "flattened_bucket",
            "weight_version": version,
            "flush_cache": version is not None,
        }
        await self._call("POST", "/update_weights_from_tensor", body)

    async def update_from_disk(self, directory: Path, version: str) -> None:
        """Let the engine read a directory of safetensors itself."""
        body = {"model_path": str(directory), "weight_version": version, "flush_cache": True}
        await self._call("POST", "/update_weights_from_disk", body)

    async def join_group(self, host: str, port: int, name: str) -> None:
        """Let the engine join a group of two as rank 1; answers once both are in it."""
        body = {"master_address": host, "master_port": port, "rank_offset": 1, "world_size": 2}
        await self._call("POST", "/init_weights_update_group", {**body, "group_name": name, "backend": "gloo"})

    async def update_from_broadcast(self, name: str, described: dict[str, Any], version: str | None) -> None:
        """Let the engine receive one flattened bucket in group `name`; the last one names the version and flushes the cache."""
        body = {**described, "group_name": name, "load_format": "flattened_bucket"}
        body |= {"weight_version": version, "flush_cache": version is not None}
        await self._call("POST", "/update_weights_from_distributed", body)

    async def leave_group(self, name: str) -> None:
        await self._call("POST", "/destroy_weights_update_group", {"group_name": name})

    async def take_adapter(self, version: str, base: str, directory: Path, digest: str) -> None:
        """Let new requests sample with a LoRA adapter (`peft`'s files) on the weights of `base`, as `version`; see `adapters`."""
        body = {"version": version, "base": base, "directory": str(directory), "digest": digest}
        await self._call("POST", "/headrace/adapter", body)

    async def restore(self) -> str:
        """Put back the weights that served when the update began; returns their version."""
        answer = await self._call("POST", "/weights_checker", {"action": RESTORE_ACTION})
        return str(answer.json()["message"])

    async def checksum(self) -> str:
        """Checksum of the parameters that the engine holds, fused as it holds them."""
        answer = await self._call("POST", "/weights_checker", {"action": "checksum"})
        return str(answer.json()["per_engine_checksum"])

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            response = await self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise EngineUnreachable(f"{method} {path}: {error!r}") from error
        if response.status_code >= 400:
            raise EngineRefused(f"{method} {path}: {response.status_code} {response.text[:500]}", response.status_code)
        return response
