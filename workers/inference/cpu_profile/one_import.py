"""One import of SGLang for all processes of an engine: the scheduler and the detokenizer are forked off the first process.

Owns how those two start on a CPU host. SGLang starts them as fresh interpreters, each of which imports all of it anew. A
fork is sound because the first process has one thread until then (OpenBLAS would start another at import, so the profile
gives it one) and has neither multiplied in parallel nor touched a device; where it has more, they start as before. No
garbage is collected while modules are imported, and what they left is frozen, so that a collection does not copy the
pages that the processes share. Source: SGLang 0.5.23, `srt/entrypoints/engine.py`. What a start costs:
`python -m bench.engine_start`. Place in the path: before step 1.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sglang.srt.plugins
from sglang.srt.plugins.hook_registry import HookRegistry

_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger(__name__)


class OneImport:
    """Forks what SGLang would spawn. One an engine, in its first process."""

    def __init__(self) -> None:
        self._parent: int | None = None
        os.register_at_fork(after_in_child=self._begin)

    def around_launch(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Launch processes of SGLang's, forked where this one has a single thread."""
        gc.freeze()
        gc.enable()
        if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
            _log.warning("%d threads run: SGLang's processes import everything once more", threads)
            return original(*args, **options)
        method = multiprocessing.get_start_method()
        multiprocessing.set_start_method("fork", force=True)
        self._parent = os.getpid()
        try:
            return original(*args, **options)
        finally:
            self._parent = None
            multiprocessing.set_start_method(method, force=True)

    def _begin(self) -> None:
        """What a fresh interpreter would be: dying with its parent, and without the plug-ins of the first process."""
        if self._parent is None:
            return
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._parent:  # it died before the kernel was told
            os._exit(1)
        self._parent = None
        sglang.srt.plugins._plugins_loaded = False
        HookRegistry.reset()
