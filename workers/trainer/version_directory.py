"""Version directories: a policy version on disk, never seen half written.

Owns their layout: `model.safetensors` (without a tied `lm_head.weight`), the base model's config and tokenizer files, an adapter
where one was trained, `manifest.json`, held-out scores once there are some, and the marker `READY`. Without the marker a directory
does not exist for anybody. Needs no torch but to write weights. Not owned: which version serves (the data proxy's record), the swap
(`publish`). Place in the path: step 3.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from atdp.versions import version_index, version_name
from workers.trainer.adapter import FOLDER, Adapter, AdapterRecord, write_adapter
from workers.trainer.adapter import WEIGHTS as ADAPTER_WEIGHTS
from workers.trainer.advantage import AgentBaseline
from workers.trainer.durable import replace_file, sync
from workers.trainer.errors import VersionUnavailable

if TYPE_CHECKING:
    from torch import Tensor

BASE_VERSION: Final = "v000000"
WEIGHTS: Final = "model.safetensors"
MANIFEST: Final = "manifest.json"
SCORES: Final = "evaluation.json"
READY: Final = "READY"
CRITIC: Final = "critic.safetensors"

_ASSETS: Final = ("*.json", "*.jinja", "*.model", "*.txt")


class TrainerState(msgspec.Struct, frozen=True):
    """What the trainer knows beside weights and optimizer, after making a version: small, so it travels with each version.

    `steps` on the way from v000000 to here, `updates` of the optimizer since its moments were last empty.
    """

    steps: int = 0
    updates: int = 0
    baselines: dict[str, AgentBaseline] = {}


class VersionManifest(msgspec.Struct, frozen=True):
    """Why this version exists and what is in it. Made by the trainer; read at rollback, at restart, by whoever asks.

    `digests` maps a tensor's name to the SHA-256 of its bytes; `trajectories` are those it learned from, by `batch_id`;
    `code` and `config` are digests of the trainer's source and settings; `adapter` says what was trained if not the weights.
    """

    version: str
    parent: str | None
    created_us: int
    digests: dict[str, str]
    dtype: str
    state: TrainerState
    batch_id: str | None = None
    lease_id: str | None = None
    trajectories: list[str] = []
    metrics: dict[str, float] = {}
    code: str = ""
    config: str = ""
    adapter: AdapterRecord | None = None


def write_version(
    root: Path,
    manifest: VersionManifest,
    weights: Mapping[str, Tensor],
    assets: Path,
    adapter: Adapter | None = None,
    critic: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a version that is not there yet; gives its directory. `assets` is a directory with config and tokenizer.

    What a crash left half written is replaced. `manifest.digests` is filled in here, and its record of the `adapter`, which is
    saved beside the weights that it was merged into. A `critic` is saved beside them too; engines know nothing of it.
    Raises: VersionUnavailable where a complete version of that name exists.
    """
    from safetensors.torch import save_file

    directory = _begin(root, manifest.version)
    save_file(dict(weights), directory / WEIGHTS, metadata={"format": "pt"})
    (directory / WEIGHTS).chmod(0o644)
    if adapter is not None:
        write_adapter(directory, adapter)
        digests = tensor_digests(directory / FOLDER / ADAPTER_WEIGHTS)
        manifest = msgspec.structs.replace(manifest, adapter=msgspec.structs.replace(adapter.record, digests=digests))
    if critic is not None:
        save_file(dict(critic), directory / CRITIC)
        sync(directory / CRITIC)
    return _finish(directory, manifest, assets)


def adopt_base(root: Path, model: Path, created_us: int) -> Path:
    """Make v000000 of a Hugging Face directory with one safetensors file, by hard links where the disk allows it."""
    directory = root / BASE_VERSION
    if is_complete(directory):
        return directory
    directory = _begin(root, BASE_VERSION)
    _link(model / WEIGHTS, directory / WEIGHTS)
    dtype = str(json.loads((model / "config.json").read_text()).get("dtype", "unknown"))
    return _finish(directory, VersionManifest(BASE_VERSION, None, created_us, {}, dtype, TrainerState()), model)


def is_complete(directory: Path) -> bool:
    """Whether the marker is there."""
    return (directory / READY).is_file()


def read_manifest(directory: Path) -> VersionManifest:
    """The manifest of a complete version.

    Raises: VersionUnavailable.
    """
    if not is_complete(directory):
        raise VersionUnavailable(f"{directory} holds no complete version; it was never finished, or its files were collected")
    return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=VersionManifest)


def verify(directory: Path) -> VersionManifest:
    """Read every tensor and compare it with its digest; gives the manifest.

    Raises: VersionUnavailable where they differ.
    """
    manifest = read_manifest(directory)
    wanted = dict(manifest.digests)
    try:
        found = tensor_digests(directory / WEIGHTS)
        if manifest.adapter is not None and manifest.adapter.digests:
            wanted |= manifest.adapter.digests
            found |= tensor_digests(directory / FOLDER / ADAPTER_WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, BufferError) as error:
        raise VersionUnavailable(f"{directory} is damaged: its weights cannot be read") from error
    if found != wanted:
        wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise VersionUnavailable(f"{directory} is damaged: {', '.join(wrong[:3])} differ from the manifest")
    return manifest


def lineage(root: Path, version: str) -> list[VersionManifest]:
    """The manifests of `version` and its ancestors, as far back as their directories are kept; never empty.

    Raises: VersionUnavailable where `version` itself is not there.
    """
    manifests = [read_manifest(root / version)]
    while (parent := manifests[-1].parent) is not None and is_complete(root / parent):
        manifests.append(read_manifest(root / parent))
    return manifests


def write_scores(directory: Path, scores: Mapping[str, float]) -> None:
    """Keep held-out scores with a version."""
    replace_file(directory / SCORES, msgspec.json.encode(scores))


def read_scores(directory: Path) -> dict[str, float]:
    """The held-out scores of a version; empty before an evaluation."""
    path = directory / SCORES
    return msgspec.json.decode(path.read_bytes(), type=dict[str, float]) if path.exists() else {}


def discard(directory: Path) -> None:
    """Remove a version directory; it stops existing at once."""
    if directory.exists():
        (directory / READY).unlink(missing_ok=True)
        sync(directory)
        shutil.rmtree(directory)
        sync(directory.parent)


def next_index(root: Path, registered: list[str]) -> int:
    """One above the highest version known to disk or record; a number is never given twice."""
    on_disk = [path.name for path in root.iterdir() if is_complete(path)]
    return 1 + max(version_index(name) for name in [*on_disk, *registered, BASE_VERSION])


def tensor_digests(weights: Path) -> dict[str, str]:
    """SHA-256 of each tensor's bytes in a safetensors file, without loading it. Source: the safetensors format, README."""
    with weights.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        view = memoryview(data)
        digests = {}
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                with view[start + begin : start + end] as tensor:
                    digests[name] = hashlib.sha256(tensor).hexdigest()
        view.release()
    return digests


def _begin(root: Path, version: str) -> Path:
    assert version == version_name(version_index(version))
    directory = root / version
    if is_complete(directory):
        raise VersionUnavailable(f"{directory} exists; a version is written once")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def _finish(directory: Path, manifest: VersionManifest, assets: Path) -> Path:
    """Everything to the disk, then the marker."""
    for pattern in _ASSETS:
        for path in assets.glob(pattern):
            if path.name not in (MANIFEST, SCORES):
                _link(path, directory / path.name)
    complete = msgspec.structs.replace(manifest, digests=tensor_digests(directory / WEIGHTS))
    (directory / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(complete)))
    for path in (directory / MANIFEST, directory / WEIGHTS, directory):
        sync(path)
    (directory / READY).touch()
    sync(directory)
    sync(directory.parent)
    return directory


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
