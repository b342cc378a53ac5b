"""Fixtures that several packages of tests share."""

import sys

from hypothesis import HealthCheck, settings

# sentencepiece 0.2.1 crashes Python at exit (SIGSEGV in SWIG's clean-up), which turns a passed run into exit status 139. gguf
# and transformers take it only if it is there, and no test runs a tokenizer of its kind.
sys.modules.setdefault("sentencepiece", None)  # type: ignore[arg-type]

pytest_plugins = ["tests.engine_fixture"]

# No absolute time is asserted: how long an example takes says how busy the machine is.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")
