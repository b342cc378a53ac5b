"""Errors of workers.inference.

InferenceError
├── ModelSourceMissing   the package that holds the model's weights is not installed
├── PluginNotInstalled   SGLang would start without Headrace's plug-in
├── EngineUnreachable    no answer from the engine: connect, time-out, cut
├── EngineRefused        the engine answered a control call with an error
├── BroadcastFailed      publisher and engine could not exchange tensors by a process group
├── SharedMemoryFailed   the publisher could not lay tensors where the engine reads them
└── SwapFailed           new weights are not serving; the old ones are (or the engine is gone)
    └── ChecksumMismatch what the engine holds is not the version
"""

from __future__ import annotations


class InferenceError(Exception):
    """Root of what can fail around an inference worker."""


class ModelSourceMissing(InferenceError):
    """The package that holds the model's weights is not installed."""


class PluginNotInstalled(InferenceError):
    """SGLang would start without Headrace's plug-in, and answer without records."""


class EngineUnreachable(InferenceError):
    """The engine did not answer."""


class EngineRefused(InferenceError):
    """The engine answered a control call with an error; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class BroadcastFailed(InferenceError):
    """Publisher and engine could not make a process group, or one of them left it."""


class SharedMemoryFailed(InferenceError):
    """torch gave the publisher no shared memory: there is no room, or its manager did not answer within torch's one second."""


class SwapFailed(InferenceError):
    """The new weights are not serving. `restored`: the engine said that the old ones are back."""

    def __init__(self, message: str, restored: bool) -> None:
        super().__init__(message)
        self.restored = restored


class ChecksumMismatch(SwapFailed):
    """What the engine holds after the update is not the version that was sent."""
