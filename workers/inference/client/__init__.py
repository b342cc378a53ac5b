"""What others may import of workers.inference: the engine's control client, weight swaps, and a version's checksum.

Owns no code. torch is imported only by the functions that touch tensors, so a command line that asks an engine for its
version does not pay for it. Used by the trainer's publisher, by `deploy` and by tests.
"""

from workers.inference.client.adapter_checksum import is_together
from workers.inference.client.adapters import AdapterVersion, swap_adapter
from workers.inference.client.checksum import expected_checksum
from workers.inference.client.http import EngineClient, EngineState
from workers.inference.client.swap import SwapReport, swap, swap_weights
from workers.inference.client.ways import Delivery, Way
from workers.inference.errors import (
    BroadcastFailed,
    ChecksumMismatch,
    EngineRefused,
    EngineUnreachable,
    InferenceError,
    SharedMemoryFailed,
    SwapFailed,
)

__all__ = [
    "AdapterVersion",
    "BroadcastFailed",
    "ChecksumMismatch",
    "Delivery",
    "EngineClient",
    "EngineRefused",
    "EngineState",
    "EngineUnreachable",
    "InferenceError",
    "SharedMemoryFailed",
    "SwapFailed",
    "SwapReport",
    "Way",
    "expected_checksum",
    "is_together",
    "swap",
    "swap_adapter",
    "swap_weights",
]
