"""Headrace's SGLang plug-in (entry point `headrace` of group `sglang.srt.plugins`).

Owns which hook goes where, and the route `/headrace/engine` that says whether they are all in place. SGLang calls
`register` in each of its processes: the HTTP process gets recording, the repairs of dialects and the pause watchdog, the
scheduler gets the weight guard. Without our request headers SGLang answers as it would without the plug-in. Place in the path:
steps 1 and 3, inside the engine.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final
from uuid import uuid4

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

_TOKENIZER: Final = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
_UPDATER: Final = "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
_ENGINE: Final = "sglang.srt.entrypoints.engine.Engine"
_LAYERS: Final = "sglang.srt.layers"
_TORCH_ATTENTION: Final = f"{_LAYERS}.attention.torch_native_backend.TorchNativeAttnBackend"
STATE_ROUTE: Final = "/headrace/engine"
ADAPTER_ROUTE: Final = "/headrace/adapter"

Hooks = Sequence[tuple[str, Callable[..., Any]]]
"""Targets of SGLang's by their dotted names, and what goes around each."""


def register() -> None:
    """Register this process's hooks; SGLang applies them right after."""
    if multiprocessing.parent_process() is None:
        _register_http()
    elif "scheduler" in _target_name():
        _register_scheduler()


def _register_http() -> None:
    from workers.inference.adapters import Adapters
    from workers.inference.continuity.hooks import Hooks as ContinuityHooks
    from workers.inference.dialects import chat, messages, refusals
    from workers.inference.dialects.responses import Responses
    from workers.inference.pause import PauseWatchdog
    from workers.inference.recording import Recording

    adapters = Adapters()
    recording = Recording(version("sglang"), adapters)
    responses = Responses()
    watchdog = PauseWatchdog.from_environment(adapters)
    continuity = ContinuityHooks.from_environment()

    def around_generate(original: Callable[..., Any], manager: Any, obj: Any, request: Any = None) -> Any:
        return continuity.around_generation(recording.around_generate(original, manager, obj, request), obj, request)

    def around_check(original: Callable[..., Any], manager: Any, request: Any, *args: Any) -> Any:
        return watchdog.around_check(partial(adapters.around_check, original), manager, request, *args)

    hooks: Hooks = [
        (f"{_TOKENIZER}.generate_request", around_generate),
        (f"{_TOKENIZER}._validate_and_resolve_lora", recording.around_resolve),
        (f"{_TOKENIZER}._send_one_request", recording.around_send),
        (f"{_TOKENIZER}.abort_request", recording.around_abort),
        ("sglang.srt.managers.io_struct.GenerateReqInput.regenerate_rid", recording.around_regenerate_rid),
        (f"{_TOKENIZER}.pause_generation", watchdog.around_pause),
        (f"{_TOKENIZER}.continue_generation", watchdog.around_continue),
        (f"{_TOKENIZER}.begin_weight_update", watchdog.around_begin),
        (f"{_TOKENIZER}.end_weight_update", watchdog.around_end),
        (f"{_TOKENIZER}.check_weights", around_check),
        (f"{_TOKENIZER}._update_model_path_info", _keep_served_name),
        *chat.hooks(),
        *refusals.hooks(),
        *responses.hooks(),
        *messages.hooks(),
        *continuity.hooks(),
        *_launch_hooks(),
    ]
    _around(hooks)
    _extend_app(recording, watchdog, continuity, adapters, [target for target, _ in hooks])


def _register_scheduler() -> None:
    from workers.inference import cpu_profile, retracted
    from workers.inference.cpu_profile import skinny_products
    from workers.inference.cpu_profile.batched_decode import BatchedDecode
    from workers.inference.cpu_profile.unpinned import unpin
    from workers.inference.launch import UNPINNED
    from workers.inference.weight_guard import WeightGuard

    if UNPINNED in os.environ:
        unpin()
    guard = WeightGuard()
    if cpu_profile.applies():
        decode = BatchedDecode()
        _around(
            [
                (f"{_TORCH_ATTENTION}.init_forward_metadata", decode.around_metadata),
                (f"{_TORCH_ATTENTION}._run_sdpa_forward_decode", decode.around_decode),
                (f"{_LAYERS}.quantization.unquant.UnquantizedLinearMethod.apply", skinny_products.around_linear),
                (f"{_LAYERS}.logits_processor.LogitsProcessor._compute_lm_head", skinny_products.around_head),
                (f"{_LAYERS}.sampler.sampling_from_probs_torch", skinny_products.around_draw),
            ]
        )
    _around(
        [
            (f"{_UPDATER}.begin_weight_update", guard.around_begin),
            (f"{_UPDATER}.update_weights_from_tensor", guard.around_tensors),
            (f"{_UPDATER}.init_weights_update_group", guard.around_join),
            (f"{_UPDATER}.check_weights", guard.around_check),
            ("sglang.srt.managers.scheduler.Scheduler.continue_generation", guard.around_continue),
            ("sglang.srt.managers.schedule_batch.Req.reset_for_retract", retracted.around_reset),
        ]
    )


def _launch_hooks() -> Hooks:
    from workers.inference import cpu_profile

    if not cpu_profile.applies():
        return ()
    from workers.inference.cpu_profile.one_import import OneImport

    launch = OneImport().around_launch
    return [(f"{_ENGINE}.{name}", launch) for name in ("_launch_scheduler_processes", "_launch_detokenizer_subprocesses")]


def _around(hooks: Hooks) -> None:
    for target, hook in hooks:
        HookRegistry.register(target, hook, HookType.AROUND)


def _target_name() -> str:
    """Name of the function that this process was started to run: SGLang names its processes after it only later."""
    process = multiprocessing.current_process()
    return getattr(getattr(process, "_target", None), "__name__", "")


def _keep_served_name(original: Callable[..., Any], manager: Any, model_path: str, load_format: str) -> None:
    """An update from disk would rename the served model after its directory; agents ask for it by name."""
    name = manager.served_model_name
    original(manager, model_path, load_format)
    manager.served_model_name = name


def _extend_app(recording: Any, watchdog: Any, continuity: Any, adapters: Any, targets: list[str]) -> None:
    import msgspec
    from fastapi.exceptions import RequestValidationError
    from sglang.srt.entrypoints import http_server
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    from workers.inference.adapters import AdapterRefused, Wanted
    from workers.inference.dialects.errors import around_handler, refusal
    from workers.inference.dialects.responses import delete
    from workers.inference.middleware import RecordMiddleware

    instance = uuid4().hex

    async def state() -> dict[str, Any]:
        manager = http_server.get_global_state().tokenizer_manager
        return {
            "engine": {"name": "sglang", "version": version("sglang")},
            "missing_hooks": [target for target in targets if target not in HookRegistry._patched],
            "weight_version": adapters.version(manager),
            "base_version": manager.config_value("weight_version"),
            "dtype": str(manager.model_config.dtype).removeprefix("torch."),
            "paused": manager.is_pause,
            "update": watchdog.update,
            "num_in_flight": len(manager.rid_to_state),
            "num_pauses_expired": watchdog.num_expired,
            "num_aborted": recording.num_aborted,
            "num_received": recording.num_received,
            "continuity": continuity.counts(),
            "instance": instance,
        }

    async def take_adapter(request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await request.body(), type=Wanted)
            await adapters.take(http_server.get_global_state().tokenizer_manager, wanted)
        except msgspec.ValidationError as error:
            return JSONResponse({"message": str(error)}, 400)
        except AdapterRefused as error:
            return JSONResponse({"message": str(error)}, error.status)
        return JSONResponse({"version": wanted.version})

    app = http_server.app
    app.exception_handlers[RequestValidationError] = partial(around_handler, app.exception_handlers[RequestValidationError])
    app.add_middleware(RecordMiddleware, forget=recording.forget, refuse=refusal)
    app.add_api_route(STATE_ROUTE, state)
    app.add_route(ADAPTER_ROUTE, take_adapter, methods=["POST"])
    app.add_route("/v1/responses/{response_id}", delete, methods=["DELETE"])
