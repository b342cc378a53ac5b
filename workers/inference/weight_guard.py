"""Keeps the weights that serve until the ones that replace them are known to be good. Runs in SGLang's scheduler process.

Owns a copy of the parameters in host memory from the beginning of an update to the end of the pause, the way back to it, and the
conversion of a failed load into an answer (SGLang lets a bad tensor end its scheduler). Reached by `/weights_checker`
with the action `headrace.restore`. Not owned: when to go back (`pause` and `client.swap` decide). Place in the path: step 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import torch
from sglang.srt.managers.io_struct import (
    CheckWeightsReqOutput,
    EndWeightUpdateReqInput,
    UpdateWeightsFromTensorReqOutput,
)
from sglang.srt.runtime_context import get_serving

RESTORE_ACTION: Final = "headrace.restore"

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

    def around_check(self, original: Callable[..., Any], updater: Any, request: Any) -> Any:
        """Serve the action `headrace.restore`; everything else is SGLang's."""
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
