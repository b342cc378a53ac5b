"""The fake engine's weights: real tensors behind the control routes of an update, with SGLang's rules and the plug-in's restore.

torch is imported only where a test gives the engine tensors; without them a checksum of zeros is all there is.
"""

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Outcome = tuple[bool, str]

_NO_SESSION = "must run between begin_weight_update() and end_weight_update()"
_NOT_FLUSHED = "Weights were updated, but the cache was not flushed because requests are still running or queued."


@dataclass
class Weights:
    """`tensors` is a Hugging Face state dict; `version` is stamped on every token that is sampled."""

    version: str = "v000000"
    tensors: dict[str, Any] = field(default_factory=dict)
    is_open: bool = False
    update: str = "none"
    _saved: dict[str, Any] = field(default_factory=dict)
    _saved_version: str = ""

    def begin(self, paused: bool) -> Outcome:
        if not paused:
            return False, "weights are replaced only while generation is paused; call /pause_generation first"
        if self.is_open:
            return False, "a weight-update session is already open; call end_weight_update() first"
        if self.update == "none":
            self._saved, self._saved_version = dict(self.tensors), self.version
        self.is_open, self.update = True, "begun"
        return True, "Success"

    def end(self) -> Outcome:
        if not self.is_open:
            return False, "no weight-update session is open; call begin_weight_update() first"
        self.is_open, self.update = False, "ended"
        return True, "Success"

    def load_payload(self, body: Mapping[str, Any], may_flush: bool) -> Outcome:
        """A flattened bucket as `/update_weights_from_tensor` gets it."""
        if not self.is_open:
            return False, f"update_weights_from_tensor {_NO_SESSION}"
        content = pickle.loads(base64.b64decode(body["serialized_named_tensors"][0]))
        flat = content["flattened_tensor"]
        new = {m.name: flat[m.start_idx : m.end_idx].view(m.dtype).reshape(m.shape).clone() for m in content["metadata"]}
        return self._load(new, body, may_flush)

    def load_broadcast(self, tensors: Mapping[str, Any], body: Mapping[str, Any], may_flush: bool) -> Outcome:
        """What came by `/update_weights_from_distributed`."""
        if not self.is_open:
            return False, f"update_weights_from_distributed {_NO_SESSION}"
        return self._load(tensors, body, may_flush)

    def load_directory(self, body: Mapping[str, Any], may_flush: bool) -> Outcome:
        """A directory of safetensors as `/update_weights_from_disk` gets it."""
        from workers.inference.client.checksum import load_directory

        return self._load(load_directory(Path(body["model_path"])), body, may_flush)

    def restore(self) -> Outcome:
        """What the plug-in adds: the weights that served when the update began."""
        if not self._saved_version:
            return False, "no update was begun: there is nothing to restore"
        self.tensors, self.version = dict(self._saved), self._saved_version
        self.confirm()
        return True, self.version

    def confirm(self) -> None:
        """The weights serve from here on."""
        self.is_open, self.update, self._saved_version = False, "none", ""

    def checksum(self) -> str:
        if not self.tensors:
            return "0" * 64
        from workers.inference.client import expected_checksum

        return expected_checksum(self.tensors)

    def _load(self, new: Mapping[str, Any], body: Mapping[str, Any], may_flush: bool) -> Outcome:
        for name, tensor in new.items():
            if name in self.tensors and self.tensors[name].shape != tensor.shape:
                return (
                    False,
                    f"AssertionError: Attempted to load weight ({tensor.shape}) into parameter ({self.tensors[name].shape})",
                )
        self.tensors.update({name: tensor for name, tensor in new.items() if name in self.tensors})
        self.version = body.get("weight_version") or self.version
        if body.get("flush_cache", True) and not may_flush:
            return False, _NOT_FLUSHED
        return True, "Success"
