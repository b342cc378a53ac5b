"""How each gateway is started in front of the mock engine, in the form that its own documentation gives.

nginx relays and does nothing else. Ours runs with everything on; whether an exchange is recorded is the key's doing.
"""

import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.environments import MissingError, python_with, version
from bench.gateway.processes import NeverReadyError, cores, free_port, started, wait_ready
from bench.gateway.programs import command
from dataproxy.keyfiles import ensure

RECORDING_KEY, PLAIN_KEY = "hr_bench_on", "hr_bench_off"
_TEMPLATE = Path(__file__).parent / "nginx.conf.in"
_START_S = 120.0


@dataclass(slots=True, frozen=True)
class Running:
    """One gateway as it is measured: where it listens, whose CPU counts, which key is sent. ``journal`` is where ours records."""

    name: str
    port: int
    pid: int
    version: str
    key: str = PLAIN_KEY
    journal: Path | None = None


@dataclass(slots=True, frozen=True)
class Site:
    """What a start needs: where to put files, the engine, how long an installation may take. ``stack`` ends it all."""

    stack: ExitStack
    directory: Path
    engine_port: int
    engine_pid: int
    install_timeout_s: float

    def run(
        self, name: str, argv: list[str], env: dict[str, str] | None = None, cpus: set[int] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start ``argv`` on the measured core, or on ``cpus``."""
        return self.stack.enter_context(started(argv, cpus or cores()[0], self.directory / f"{name}.log", env))


def start_engine(stack: ExitStack, directory: Path) -> subprocess.Popen[bytes]:
    """The mock engine on the other core; its first line of output is its port."""
    return stack.enter_context(started([*command("mock_engine"), "0"], cores()[1], directory / "engine.log"))


def _nginx(site: Site) -> list[Running]:
    binary = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if binary is None:
        raise MissingError("nginx is not installed (Debian: nginx-light)")
    directory, port = site.directory / "nginx", free_port()
    directory.mkdir()
    names = {"@DIR@": str(directory), "@ENGINE@": str(site.engine_port), "@PORT@": str(port)}
    text = _TEMPLATE.read_text()
    for name, value in names.items():
        text = text.replace(name, value)
    config = directory / "nginx.conf"
    config.write_text(text)
    process = site.run("nginx", [binary, "-e", str(directory / "error.log"), "-p", str(directory), "-c", str(config)])
    wait_ready(process, f"http://127.0.0.1:{port}/ready", _START_S)
    told = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stderr
    return [Running("nginx", port, process.pid, told.strip().rpartition("/")[2])]


def start_ours(site: Site, processes: int = 1, cpus: set[int] | None = None) -> list[Running]:
    """Our gateway as ``ours-off`` and ``ours-on``, in ``processes`` processes, on the measured core or on ``cpus``."""
    name = "ours" if processes == 1 and cpus is None else f"ours-{processes}p"
    data, port = site.directory / name, free_port()
    (data / "run").mkdir(parents=True)
    ensure(data / "config")
    socket = data / "run" / "dataproxy.sock"
    keys = [sys.executable, "-m", "bench.gateway.keytable", str(socket), RECORDING_KEY, PLAIN_KEY]
    site.stack.enter_context(started(keys, cores()[1], site.directory / f"{name}-keytable.log"))
    settings = {
        "DATA_DIR": str(data),
        "CONFIG_DIR": str(data / "config"),
        "PORT": str(port),
        "PROCESSES": str(processes),
        "ENGINE_URLS": f'["http://127.0.0.1:{site.engine_port}"]',
    }
    env = {f"HEADRACE_GATEWAY_{name}": value for name, value in settings.items()}
    process = site.run(name, [sys.executable, "-m", "gateway"], env, cpus)
    wait_ready(process, f"http://127.0.0.1:{port}/ready", _START_S)
    return [
        Running(f"{name}-off", port, process.pid, "this tree", PLAIN_KEY),
        Running(f"{name}-on", port, process.pid, "this tree", RECORDING_KEY, data / "journal"),
    ]


def _sglang_router(site: Site) -> list[Running]:
    python, port = python_with("sglang-router", site.install_timeout_s), free_port()
    argv = [str(python), "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--worker-urls", f"http://127.0.0.1:{site.engine_port}", "--prometheus-port", str(free_port()), "--log-level", "error"]
    process = site.run("sglang-router", argv)
    wait_ready(process, f"http://127.0.0.1:{port}/v1/models", _START_S)
    return [Running("sglang-router", port, process.pid, version(python, "sglang-router"))]


def _litellm(site: Site) -> list[Running]:
    python, port = python_with("litellm[proxy]", site.install_timeout_s), free_port()
    config = site.directory / "litellm.yaml"
    parameters = f"{{model: openai/tiny, api_base: 'http://127.0.0.1:{site.engine_port}/v1', api_key: none}}"
    config.write_text(f"model_list:\n  - model_name: tiny\n    litellm_params: {parameters}\n")
    key = f"sk-{secrets.token_hex(32)}"  # it does not start without one
    env = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"}
    argv = [str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    process = site.run("litellm", argv, env)
    wait_ready(process, f"http://127.0.0.1:{port}/health/liveliness", _START_S)
    return [Running("litellm", port, process.pid, version(python, "litellm[proxy]"), key)]


def _plain(site: Site) -> list[Running]:
    port = free_port()
    process = site.run("plain", [sys.executable, "-m", "bench.gateway.plain", str(port), str(site.engine_port)])
    wait_ready(process, f"http://127.0.0.1:{port}/", _START_S)
    return [Running("fastapi-httpx", port, process.pid, "this tree")]


def _floor(site: Site) -> list[Running]:
    port = free_port()
    process = site.run("floor", [sys.executable, "-m", "bench.gateway.floor", str(port), str(site.engine_port)])
    wait_ready(process, f"http://127.0.0.1:{port}/ready", _START_S)
    return [Running("python-floor", port, process.pid, "this tree")]


STARTS: dict[str, Callable[[Site], list[Running]]] = {
    "nginx": _nginx,
    "python-floor": _floor,
    "ours": start_ours,
    "sglang-router": _sglang_router,
    "litellm": _litellm,
    "fastapi-httpx": _plain,
}


def start_all(site: Site, names: list[str]) -> tuple[list[Running], dict[str, str]]:
    """(those of ``names`` that run, why the others do not); they start side by side."""
    running: list[Running] = []
    missing: dict[str, str] = {}
    with ThreadPoolExecutor() as pool:
        starts = {name: pool.submit(STARTS[name], site) for name in names}
    for name, start in starts.items():
        try:
            running += start.result()
        except (MissingError, NeverReadyError, OSError) as error:
            missing[name] = str(error)
            print(f"bench: {name} is left out: {error}", file=sys.stderr)
    return running, missing
