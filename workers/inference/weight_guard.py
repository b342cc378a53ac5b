"""Keeps the weights that serve until the ones that replace them are known to be good. Runs in SGLang's scheduler process.

Owns a copy of the parameters in host memory from the beginning of an update to the end of the pause, the way back to it, and the
conversion of a failed load into an answer (SGLang lets a bad tensor end its scheduler). Reached by `/weights_checker`
with the action `headrace.restore`. Not owned: when to go back (`pause` and `client.swap` decide). Place in the path: step 3.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed.distributed_c10d as c10d
from sglang.srt.managers.io_struct import (
    CheckWeightsReqOutput,
    EndWeightUpdateReqInput,
    UpdateWeightsFromTensorReqOutput,
)
from sglang.srt.runtime_context import get_serving

from workers.inference.client.adapter_checksum import digest

RESTORE_ACTION: Final = "headrace.restore"
ADAPTER_ACTION: Final = "headrace.adapter:"
_MAX_PAUSE_VARIABLE: Final = "HEADRACE_MAX_PAUSE_S"
_DEFAULT_MAX_PAUSE_S: Final = 30.0

logger = logging.getLogger(__name__)


class WeightGuard:
    """State of one scheduler process; the methods are hooks around its weight updater's and scheduler's own."""

    def __init__(self) -> None:
        self._saved: dict[str, torch.Tensor] = {}
        self._version = ""

    def around_begin(self, original: Callable[..., Any], updater: Any, request: Any) -> Any:
        """Save every parameter, then open the session. An earlier copy stays: it is what served last."""
        if not self._saved:
            self._version = get_serving().weight_version
            self._saved = {name: value.detach().to("cpu", copy=True) for name, value in _parameters(updater)}
        return original(updater, request)

    def around_tensors(self, original: Callable[..., Any], updater: Any, request: Any) -> Any:
        """Answer a load that failed with its reason; the weights are then partly new until they are restored."""
        try:
            return original(updater, request)
        except Exception as error:  # noqa: BLE001  # whatever a wrong tensor raises in a model's loader
            logger.error("weights were not loaded: %s", error)
            return UpdateWeightsFromTensorReqOutput(success=False, message=f"{type(error).__name__}: {error}")

    def around_join(self, original: Callable[..., Any], updater: Any, request: Any) -> Any:
        """Join a group of the publisher's for at most half the limit of a pause, and wait no longer for any broadcast in it.

        SGLang takes torch's default, half an hour, in which a publisher that died would leave this process waiting.
        """
        limit_s = float(os.environ.get(_MAX_PAUSE_VARIABLE, _DEFAULT_MAX_PAUSE_S)) / 2
        default, c10d.default_pg_timeout = c10d.default_pg_timeout, timedelta(seconds=limit_s)
        try:
            return original(updater, request)
        finally:
            c10d.default_pg_timeout = default

    def around_check(self, original: Callable[..., Any], updater: Any, request: Any) -> Any:
        """Serve the actions `headrace.restore` and `headrace.adapter:NAME`; everything else is SGLang's."""
        if request.action.startswith(ADAPTER_ACTION):
            return _digest(updater, request.action.removeprefix(ADAPTER_ACTION))
        if request.action != RESTORE_ACTION:
            return original(updater, request)
        if not self._saved:
            return CheckWeightsReqOutput(success=False, message="no update was begun: there is nothing to restore")
        if updater._session is not None:
            updater.end_weight_update(EndWeightUpdateReqInput())
        with torch.no_grad():
            for name, value in _parameters(updater):
                value.copy_(self._saved[name])
        updater.flush_cache()
        updater.record_weight_version_after_update(self._version)
        message = self._version
        self._saved.clear()
        return CheckWeightsReqOutput(success=True, message=message)

    def around_continue(self, original: Callable[..., Any], scheduler: Any, request: Any) -> Any:
        """The weights serve from here on: the copy is no longer needed."""
        self._saved.clear()
        return original(scheduler, request)


def _parameters(updater: Any) -> list[tuple[str, torch.Tensor]]:
    """Named parameters of every runner; the draft's names are told apart by the runner's index."""
    return [
        (f"{index}.{name}", parameter)
        for index, (_, runner) in enumerate(updater._select_runners())
        for name, parameter in runner.model.named_parameters()
    ]


def _digest(updater: Any, name: str) -> CheckWeightsReqOutput:
    """The digest of a loaded adapter, from the tensors that every batch's copies are made of."""
    for _, runner in updater._select_runners():
        manager: Any = getattr(runner, "lora_manager", None)
        for key, ref in manager.lora_refs.items() if manager is not None else ():
            if ref.lora_name == name:
                adapter = manager.loras[key]
                tensors = {part: [value] for layer in adapter.layers for part, value in layer.weights.items()}
                return CheckWeightsReqOutput(success=True, message=digest(tensors, adapter.scaling))
    return CheckWeightsReqOutput(success=False, message=f"no adapter {name} is loaded")
