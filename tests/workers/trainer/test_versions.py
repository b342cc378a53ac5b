"""Versions on a disk: listed, pinned, collected, exported to a folder that transformers loads by itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from workers.trainer.errors import VersionUnavailable
from workers.trainer.version_directory import (
    TrainerState,
    VersionManifest,
    adopt_base,
    is_complete,
    lineage,
    write_scores,
    write_version,
)
from workers.trainer.version_keeping import collect, expendable, export, pin, unpin
from workers.trainer.versions import main


@pytest.fixture
def root(tmp_path: Path, micro: Path) -> Path:
    """A directory of versions that holds v000000."""
    adopt_base(tmp_path / "versions", micro, 1)
    return tmp_path / "versions"


def write(root: Path, version: str, parent: str = "v000000") -> Path:
    weights = {name: (tensor + 0.01).bfloat16() for name, tensor in load_file(root / "v000000" / "model.safetensors").items()}
    manifest = VersionManifest(version, parent, 1, {}, "bfloat16", TrainerState())
    return write_version(root, manifest, weights, root / "v000000")


def line(root: Path) -> None:
    """v000001 to v000007 one after another, then v000008 after a rollback to v000004."""
    for index in range(1, 8):
        write(root, f"v00000{index}", f"v00000{index - 1}")
    write(root, "v000008", "v000004")


def test_the_base_what_serves_the_pinned_the_newest_and_the_line_of_the_head_are_kept(root: Path) -> None:
    line(root)
    assert [m.version for m in lineage(root, "v000008")][:3] == ["v000008", "v000004", "v000003"]
    pin(root / "v000002", "the one in the paper")
    assert expendable(root, "v000008", 2, {"v000005"}) == ["v000001", "v000003", "v000006"]
    unpin(root / "v000002")
    assert collect(root, "v000008", keep=2, serving={"v000008"}) == ["v000001", "v000002", "v000003", "v000005", "v000006"]
    assert {path.name for path in root.iterdir() if is_complete(path)} == {f"v00000{i}" for i in (0, 4, 7, 8)}


def test_what_is_not_there_cannot_be_pinned(root: Path) -> None:
    with pytest.raises(VersionUnavailable):
        pin(root / "v000009", "")


@pytest.mark.slow
def test_an_exported_version_is_a_folder_that_transformers_loads_alone(root: Path, tmp_path: Path) -> None:
    write_scores(write(root, "v000001"), {"eval_score": 1.0})
    export(root / "v000001", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
    }  # fmt: skip
    code = (
        "import sys, torch; sys.modules['torchvision'] = None; from transformers import AutoModelForCausalLM;"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1]);"
        "torch.save(model(torch.arange(3, 20)[None]).logits, sys.argv[2]);"
        "print(model.dtype, [name for name in sys.modules if name.startswith('workers')])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out"), str(tmp_path / "logits.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "torch.bfloat16 []"
    ours = AutoModelForCausalLM.from_pretrained(root / "v000001", dtype=torch.bfloat16)
    assert torch.equal(torch.load(tmp_path / "logits.pt"), ours(torch.arange(3, 20)[None]).logits)


def test_an_export_overwrites_nothing_and_checks_what_it_copies(root: Path, tmp_path: Path) -> None:
    directory = write(root, "v000001")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(FileExistsError, match="not empty"):
        export(directory, tmp_path / "out")
    weights = bytearray((directory / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (directory / "model.safetensors").write_bytes(weights)
    with pytest.raises(VersionUnavailable, match="damaged"):
        export(directory, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_command_says_what_would_go_before_it_goes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line(root)

    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(["--data-dir", str(root.parent), *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    assert command("pin", "v000002", "--reason", "kept for the audit")[0] == 0
    would = json.loads(command("gc", "--serving", "v000008", "--keep", "2")[1])
    assert would["versions"] == ["v000001", "v000003", "v000005", "v000006"] and would["bytes"] > 0 and not would["removed"]
    assert is_complete(root / "v000001")
    assert json.loads(command("gc", "--serving", "v000008", "--keep", "2", "--remove")[1])["removed"]
    listed = {row["version"]: row for row in json.loads(command("list")[1])}
    assert listed.keys() == {f"v00000{i}" for i in (0, 2, 4, 7, 8)} and listed["v000002"]["pinned"] == "kept for the audit"
    status, _, said = command("export", "v000001", str(root / "out"))
    assert status == 1 and "v000001 is not on this disk; there are v000000, v000002" in said
