"""What an engine is started with, with and without a GPU, and that nothing of it outlives its supervisor."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from workers.inference import cpu_profile, launch
from workers.inference.launch import LaunchOptions, command, environment
from workers.inference.templates import tool_call_parser

OPTIONS = LaunchOptions(Path("/models/tiny"), 31000, "tiny", weight_version="v000004", extra=("--tp", "2"))


def test_the_command_names_model_port_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_profile, "applies", lambda: True)
    arguments = command(OPTIONS)
    pairs = dict(pairwise(arguments))
    assert pairs["--served-model-name"] == "tiny" and pairs["--weight-version"] == "v000004"
    assert pairs["--host"] == "127.0.0.1" and pairs["--attention-backend"] == "torch_native"
    assert arguments[-2:] == ["--tp", "2"]


def test_parsers_are_those_that_the_template_speaks_unless_named(tmp_path: Path) -> None:
    def flags(template: str, **options: str) -> tuple[str | None, str | None]:
        (tmp_path / "chat_template.jinja").write_text(template)
        pairs = dict(pairwise(command(replace(OPTIONS, model_path=tmp_path, **options))))
        return pairs.get("--tool-call-parser"), pairs.get("--reasoning-parser")

    hermes = '{"name": <function-name>, "arguments": <args-json-object>}'
    assert flags("no tools") == ("auto", "auto")
    assert flags(hermes) == ("hermes", "auto")
    assert flags(f"{hermes} {{% if enable_thinking %}}") == ("auto", "auto")  # Qwen3's: SGLang knows it
    assert flags("<|start_header_id|> Environment: ipython") == ("llama3", "auto")
    assert flags(hermes, tool_call_parser="none", reasoning_parser="qwen3") == (None, "qwen3")


def test_the_template_may_lie_in_the_tokenizers_configuration(tmp_path: Path) -> None:
    templates = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": '"arguments": <args-json-object>'}]
    for kept in (templates, templates[1]["template"]):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": kept}))
        assert tool_call_parser(tmp_path) == "hermes"


def test_a_gpu_host_gets_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_profile, "applies", lambda: False)
    assert "--device" not in command(OPTIONS)
    env = environment(OPTIONS, {"PYTHONPATH": "/mine"})
    assert str(cpu_profile.PATH) not in env["PYTHONPATH"] and env["PYTHONPATH"].endswith(":/mine")
    assert "SGLANG_USE_CPU_ENGINE" not in env and env["HF_HUB_OFFLINE"] == "1"


def test_the_profile_reaches_every_process_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_profile, "applies", lambda: True)
    env = environment(OPTIONS, {"PATH": "/bin"})
    code = "import sys, sgl_kernel; print('torchvision._meta_registrations' in sys.modules, sgl_kernel.__file__)"
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert told == f"True {cpu_profile.PATH / 'sgl_kernel' / '__init__.py'}\n"


def test_a_kernel_that_is_not_there_says_so_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_profile, "applies", lambda: True)
    code = "import sgl_kernel; sgl_kernel.verify_tree_greedy_cpu(1)"
    ended = subprocess.run([sys.executable, "-c", code], env=environment(OPTIONS, {}), capture_output=True, text=True)
    assert "no compiled CPU kernels on this machine" in ended.stderr


def test_without_the_plug_in_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "entry_points", lambda group: [])
    with pytest.raises(launch.PluginNotInstalled, match="pip install"):
        environment(OPTIONS, {})
