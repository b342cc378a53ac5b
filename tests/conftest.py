"""Fixtures that several packages of tests share."""

import sys

# sentencepiece 0.2.1 crashes Python at exit (SIGSEGV in SWIG's clean-up), which turns a passed run into exit status 139. gguf
# and transformers take it only if it is there, and no test runs a tokenizer of its kind.
sys.modules.setdefault("sentencepiece", None)  # type: ignore[arg-type]

pytest_plugins = ["tests.engine_fixture"]
