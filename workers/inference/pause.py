"""Lets no publisher leave the engine paused or half updated. Runs in SGLang's HTTP process.

Owns the hard limit of a pause (HEADRACE_MAX_PAUSE_S, default 30 s) and the rule that nothing is sampled from weights of an update
that was begun and not ended: such an update is undone before generation goes on. When the limit passes, weights that were
ended but never confirmed by a continue are undone too: their publisher is gone and nobody announced them. If undoing
fails, the process ends and its supervisor starts it again from a version directory. Place in the path: step 3.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from typing import Any, Final, Literal

from sglang.srt.managers.io_struct import CheckWeightsReqInput, ContinueGenerationReqInput

from atdp import faults
from workers.inference.adapters import Adapters

RESTORE_ACTION: Final = "headrace.restore"
MAX_PAUSE_VARIABLE: Final = "HEADRACE_MAX_PAUSE_S"
DEFAULT_MAX_PAUSE_S: Final = 30.0

UpdateState = Literal["none", "begun", "ended"]

logger = logging.getLogger(__name__)


class PauseWatchdog:
    """State of one engine; the methods are hooks around the tokenizer manager's own."""

    def __init__(self, max_pause_s: float, adapters: Adapters) -> None:
        self.max_pause_s = max_pause_s
        self._adapters = adapters
        self.update: UpdateState = "none"
        self.num_expired = 0
        self._version = ""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def from_environment(adapters: Adapters) -> PauseWatchdog:
        return PauseWatchdog(float(os.environ.get(MAX_PAUSE_VARIABLE, DEFAULT_MAX_PAUSE_S)), adapters)

    async def around_pause(self, original: Callable[..., Any], manager: Any, request: Any) -> None:
        self._arm(manager)
        await original(manager, request)
        faults.point("engine.after_pause")

    async def around_begin(self, original: Callable[..., Any], manager: Any, *args: Any) -> tuple[bool, str]:
        """Refuse an update of an engine that samples: its tokens would come from neither version."""
        if not manager.is_pause:
            return False, "weights are replaced only while generation is paused; call /pause_generation first"
        version = manager.config_value("weight_version")
        success, message = await original(manager, *args)
        if success:
            self._version = version if self.update == "none" else self._version
            self.update = "begun"
            self._adapters.set_aside()
            faults.point("engine.after_begin")
        return success, message

    async def around_end(self, original: Callable[..., Any], manager: Any, *args: Any) -> tuple[bool, str]:
        success, message = await original(manager, *args)
        if success:
            self.update = "ended"
            faults.point("engine.after_end")
        return success, message

    async def around_check(self, original: Callable[..., Any], manager: Any, request: Any, *args: Any) -> Any:
        """After a restore this process names the old version again, as the scheduler does."""
        answer = await original(manager, request, *args)
        if request.action == RESTORE_ACTION and answer[0]:
            manager._update_weight_version_if_provided(self._version)
            self._adapters.put_back()
            self.update = "none"
        return answer

    async def around_continue(self, original: Callable[..., Any], manager: Any, request: Any) -> None:
        """Generation goes on, on whole weights: an open update is undone first."""
        if self.update == "begun":
            await self._restore(manager)
        faults.point("engine.before_continue")
        await original(manager, request)
        self.update = "none"
        self._adapters.forget(manager)
        self._disarm()
        faults.point("engine.after_continue")

    def _arm(self, manager: Any) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.max_pause_s, self._expire, manager)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, manager: Any) -> None:
        self._timer = None
        self.num_expired += 1
        self._task = asyncio.get_running_loop().create_task(self._resume(manager))

    async def _resume(self, manager: Any) -> None:
        logger.error("paused for %s s and not continued: going on by ourselves (update: %s)", self.max_pause_s, self.update)
        if self.update != "none":
            await self._restore(manager)
        if manager.is_pause:
            await manager.continue_generation(ContinueGenerationReqInput(torch_empty_cache=False))

    async def _restore(self, manager: Any) -> None:
        success, message = False, f"the scheduler did not answer within {self.max_pause_s:g} s"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.max_pause_s):
                success, message, *_ = await manager.check_weights(CheckWeightsReqInput(action=RESTORE_ACTION))
        if not success:
            logger.critical("the weights cannot be restored (%s): ending, so that no mixed weights serve", message)
            os.kill(os.getpid(), signal.SIGKILL)
