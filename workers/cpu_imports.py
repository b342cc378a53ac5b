"""Makes transformers importable where torch is a CPU build and torchvision is not.

Owns one workaround: PyPI's torchvision wheel is built against CUDA torch. On a CPU build its C++ operators do not load,
and `torchvision._meta_registrations` then fails at import with "operator torchvision::nms does not exist", and with
it `import transformers`. Nothing here calls an operator of torchvision, so an empty module stands in for that one.
Not owned: what SGLang itself needs on a CPU. Place in the path: before step 1; called when `workers` is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType


def stub_torchvision_registrations() -> None:
    """Put an empty `torchvision._meta_registrations` into `sys.modules` unless the real one is already loaded."""
    sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
