"""Runs at the start of every Python process of an engine on a CPU host, because its directory is on PYTHONPATH.

Owns two things that have to happen before SGLang is imported. The module `torchvision._meta_registrations` exists before anything
imports torchvision, whose PyPI wheel is built against CUDA torch and fails there with "operator torchvision::nms does not
exist"; SGLang starts its scheduler and detokenizer as fresh interpreters, so a workaround in the first process alone would not
reach them. And those two die with their parent from their first moment on: SGLang asks the kernel for that only after its imports.
A parent that died before the kernel was told is found by the engine's process id, which `workers.inference` leaves in the
environment.
"""

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

_PR_SET_PDEATHSIG = 1

sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))


def _is_running(pid: str) -> bool:
    """Whether the process is there and more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


if any("multiprocessing.spawn" in argument for argument in sys.orig_argv):
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if "HEADRACE_ENGINE_PID" in os.environ and not _is_running(os.environ["HEADRACE_ENGINE_PID"]):
        os._exit(1)

if os.environ.get("HEADRACE_ENGINE_PID") == str(os.getpid()):
    gc.disable()  # until its modules are imported: `one_import`
