"""Provenance: which code and which settings made a version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from workers.trainer.settings import Settings

_PLACES = frozenset({"data_dir", "config_dir", "model_path", "engine_urls", "gateway_url", "swap", "swap_host", "audit_every_s"})


def config(settings: Settings) -> dict[str, float | int | str | bool]:
    """The settings that bear on what is learned: all but places and unset ones."""
    values = settings.model_dump(mode="json", exclude=set(_PLACES), exclude_none=True)
    return {name: json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value for name, value in values.items()}


def config_digest(settings: Settings) -> str:
    """SHA-256 of `config`."""
    return hashlib.sha256(json.dumps(config(settings), sort_keys=True).encode()).hexdigest()


def code_digest() -> str:
    """SHA-256 over the source files of this package, by name."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
