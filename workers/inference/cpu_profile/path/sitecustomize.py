"""Runs at the start of every Python process of an engine on a CPU host, because its directory is on PYTHONPATH.

Owns two things that have to happen before SGLang is imported. The module `torchvision._meta_registrations` exists before anything
imports torchvision, whose PyPI wheel is built against CUDA torch and fails there with "operator torchvision::nms does not
exist"; SGLang starts its scheduler and detokenizer as fresh interpreters, so a workaround in the first process alone would not
reach them. And those two die with their parent from their first moment on: SGLang asks the kernel for that only after its imports.
"""

import ctypes
import signal
import sys
from types import ModuleType

_PR_SET_PDEATHSIG = 1

sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))

if any("multiprocessing.spawn" in argument for argument in sys.orig_argv):
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
