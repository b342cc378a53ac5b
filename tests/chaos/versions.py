"""Versions without a trainer: the base's weights, moved by a hundredth for each number."""

from pathlib import Path

from safetensors.torch import load_file

from tests.workers.trainer.world import World
from workers.trainer.version_directory import TrainerState, VersionManifest, write_version


def write(world: World, version: str, parent: str = "v000000") -> Path:
    """The complete directory of ``version``."""
    base = load_file(world.model / "model.safetensors")
    weights = {name: tensor + 0.01 * int(version[1:]) for name, tensor in base.items()}
    manifest = VersionManifest(version, parent, 1, {}, "float32", TrainerState())
    return write_version(world.paths.versions, manifest, weights, world.paths.versions / "v000000")
