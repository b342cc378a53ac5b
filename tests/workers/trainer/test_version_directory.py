"""Version directories: whole or absent, checked, collected."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from workers.trainer.errors import VersionUnavailable
from workers.trainer.version_directory import (
    TrainerState,
    VersionManifest,
    adopt_base,
    next_index,
    read_manifest,
    tensor_digests,
    verify,
    write_version,
)

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.weight": torch.ones(4, dtype=torch.bfloat16)}


def manifest(version: str, parent: str = "v000000", **more: object) -> VersionManifest:
    return VersionManifest(version, parent, 1, {}, "float32", TrainerState(), **more)  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path, micro: Path) -> Path:
    """A directory of versions that holds v000000."""
    adopt_base(tmp_path / "versions", micro, 1)
    return tmp_path / "versions"


def write(root: Path, version: str, parent: str = "v000000") -> Path:
    return write_version(root, manifest(version, parent), WEIGHTS, root / "v000000")


def test_digests_are_those_of_the_tensors_bytes(tmp_path: Path) -> None:
    save_file(WEIGHTS, tmp_path / "w.safetensors", metadata={"format": "pt"})
    digests = tensor_digests(tmp_path / "w.safetensors")
    assert digests["a.weight"] == hashlib.sha256(WEIGHTS["a.weight"].numpy().tobytes()).hexdigest()
    assert digests["b.weight"] == hashlib.sha256(WEIGHTS["b.weight"].view(torch.uint8).numpy().tobytes()).hexdigest()


def test_an_engine_could_start_from_any_version(root: Path, micro: Path) -> None:
    directory = write(root, "v000001")
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        assert (directory / name).read_bytes() == (micro / name).read_bytes()
    assert torch.equal(load_file(directory / "model.safetensors")["a.weight"], WEIGHTS["a.weight"])


def test_without_the_marker_there_is_no_version(root: Path) -> None:
    directory = write(root, "v000001")
    (directory / "READY").unlink()
    with pytest.raises(VersionUnavailable, match="no complete version"):
        read_manifest(directory)
    assert next_index(root, []) == 1
    assert verify(write(root, "v000001")).digests.keys() == WEIGHTS.keys()


def test_a_complete_version_is_never_written_again(root: Path) -> None:
    write(root, "v000001")
    with pytest.raises(VersionUnavailable, match="written once"):
        write(root, "v000001")


def test_a_flipped_bit_is_found(root: Path) -> None:
    weights = write(root, "v000001") / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(VersionUnavailable, match="damaged"):
        verify(weights.parent)


def test_numbers_go_on_from_the_highest_ever_registered(root: Path) -> None:
    write(root, "v000003")
    assert next_index(root, ["v000007"]) == 8 and next_index(root, []) == 4
