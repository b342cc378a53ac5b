"""The parts of presidio-analyzer in use, imported without the model frameworks that it would load where they are installed.

presidio and spaCy look for torch and transformers at import; loading them costs seconds and hundreds of megabytes, and the
pattern lane runs no model. While presidio is imported they are hidden, as if they were not installed.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

_FRAMEWORKS = ("torch", "transformers", "stanza", "gliner", "cupy", "tensorflow", "mxnet")


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Make ``import name`` fail for each name not yet imported, inside the block only."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None stands for "not importable" (import system, 5.3.1)
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def hidden_frameworks() -> AbstractContextManager[None]:
    """Make the model frameworks look as if they were not installed, inside the block only."""
    return _hidden(_FRAMEWORKS)


with hidden_frameworks():
    from presidio_analyzer import AnalyzerEngine, LocalRecognizer, RecognizerRegistry, RecognizerResult
    from presidio_analyzer.context_aware_enhancers import ContextAwareEnhancer
    from presidio_analyzer.nlp_engine import NlpArtifacts
    from presidio_analyzer.nlp_engine.no_op_nlp_engine import NoOpNlpEngine

__all__ = [
    "AnalyzerEngine",
    "ContextAwareEnhancer",
    "LocalRecognizer",
    "NlpArtifacts",
    "NoOpNlpEngine",
    "RecognizerRegistry",
    "RecognizerResult",
    "hidden_frameworks",
]
