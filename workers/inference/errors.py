"""Errors of workers.inference.

InferenceError
└── ModelSourceMissing   the package that holds the model's weights is not installed
"""

from __future__ import annotations


class InferenceError(Exception):
    """Root of what can fail around an inference worker."""


class ModelSourceMissing(InferenceError):
    """The package that holds the model's weights is not installed."""
