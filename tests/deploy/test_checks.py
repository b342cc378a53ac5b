"""What stops a start before anything runs: a taken port, too little memory, another Headrace on the same data."""

import socket
from pathlib import Path

import pytest
from rich.console import Console

from deploy.errors import AlreadyRunning, NameTaken, NotEnoughMemory, PortTaken
from deploy.launcher import checks
from deploy.launcher.lock import InstanceLock, is_held, is_running
from deploy.launcher.options import UpOptions
from deploy.launcher.report import Report
from deploy.launcher.up import run
from deploy.paths import Paths


def test_a_taken_port_is_named_with_another_to_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{port}.*--port"):
            checks.require_free_port("127.0.0.1", port)
    checks.require_free_port("127.0.0.1", port)


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", checks.free_port())):
        pass


def test_a_container_limit_counts_where_it_is_less_than_the_machine_has(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16000 kB\nMemAvailable:    8000 kB\n")
    assert checks.available_memory_bytes(meminfo, tmp_path) == 8000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert checks.available_memory_bytes(meminfo, tmp_path) == 8000 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    assert checks.available_memory_bytes(meminfo, tmp_path) == 4000


def test_too_little_memory_is_said_with_both_figures() -> None:
    with pytest.raises(NotEnoughMemory, match=r"needs about 1048576\.0 GiB of memory and \d+\.\d GiB is available"):
        checks.require_memory(2**50, "Headrace")
    checks.require_memory(1, "Headrace")


def test_a_start_that_needs_more_memory_than_there_is_ends_with_that_sentence_and_nothing_is_made(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "data", tmp_path / "config")
    asked = UpOptions(paths, port=0, model="tiny", num_ranks=10**7)  # 0.7 GiB each
    with pytest.raises(
        NotEnoughMemory, match=r"^Headrace with the model tiny needs about 7000002\.5 GiB of memory and .*--no-train"
    ):
        run(asked, Report(Console()), lambda *_: pytest.fail("it started"))
    assert not is_held(paths.run_dir) and not paths.config_dir.exists() and not paths.log_dir.exists()


def test_a_second_instance_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    assert not is_held(run_dir) and not is_running(run_dir)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as data_proxy:  # one that was started by itself
        data_proxy.bind(str(run_dir / "dataproxy.sock"))
        assert not is_running(run_dir)
        data_proxy.listen()
        assert is_running(run_dir)
    assert not is_running(run_dir)
    with InstanceLock(run_dir):
        assert is_held(run_dir)
        with pytest.raises(AlreadyRunning, match=r"already runs on .*process \d+.*--data-dir"), InstanceLock(run_dir):
            pass
    assert not is_held(run_dir)
    with InstanceLock(run_dir):
        pass


def test_a_model_of_another_provider_with_our_models_name_is_refused(tmp_path: Path) -> None:
    models = tmp_path / "external.toml"
    checks.require_own_name("tiny", models)
    models.write_text('[[models]]\nname = "judge"\n[[models]]\nname = "tiny"\n')
    checks.require_own_name("other", models)
    with pytest.raises(NameTaken, match="another name"):
        checks.require_own_name("tiny", models)
