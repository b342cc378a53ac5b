"""The fake engine's LoRA adapters: the plug-in's rules about which serves, without any arithmetic."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.weights import Weights
from workers.inference.client.adapter_checksum import adapter_digest, together

Refusal = tuple[int, str]


@dataclass
class Adapters:
    """`serving` is (version, digest) of the adapter that new requests get, on the base weights of `weights`."""

    weights: Weights
    serving: tuple[str, str] | None = None
    taken: list[str] = field(default_factory=list)
    _aside: tuple[str, str] | None = None

    @property
    def version(self) -> str:
        """What a request that begins now is stamped with."""
        return self.serving[0] if self.serving is not None else self.weights.version

    def take(self, body: dict[str, Any]) -> Refusal | None:
        """As `POST /headrace/adapter`; None where it serves now."""
        version, base = body["version"], body["base"]
        if base != self.weights.version or self._aside is not None:
            return 409, f"the adapter of {version} belongs to {base}, and the engine holds {self.weights.version}"
        try:
            found = adapter_digest(Path(body["directory"]))
        except OSError as error:
            return 400, f"{version} cannot be loaded: {error}"
        if found != body["digest"]:
            return 409, f"the engine holds {found}, the adapter of {version} is {body['digest']}"
        self.serving = (version, found)
        self.taken.append(version)
        return None

    def set_aside(self) -> None:
        """An update of the base weights has begun."""
        self._aside, self.serving = self._aside or self.serving, None

    def put_back(self) -> None:
        """It was undone."""
        if self._aside is not None:
            self._aside, self.serving = None, self._aside

    def forget(self) -> None:
        """It serves."""
        self._aside = None

    def checksum(self) -> str:
        """Of the base weights, and of the adapter where one serves."""
        own = self.weights.checksum()
        return own if self.serving is None else together(own, self.serving[1])
