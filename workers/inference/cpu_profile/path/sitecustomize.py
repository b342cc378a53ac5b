"""Runs at the start of every Python process of an engine on a CPU host, because its directory is on PYTHONPATH.

Owns one line: the module `torchvision._meta_registrations` exists before anything imports torchvision, whose PyPI wheel
is built against CUDA torch and fails there with "operator torchvision::nms does not exist". SGLang starts its scheduler
and detokenizer as fresh interpreters, so a workaround in the first process alone would not reach them.
"""

import sys
from types import ModuleType

sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
