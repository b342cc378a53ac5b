"""What the processes are: command, environment, readiness, grace. Nothing here starts anything.

Start order: the data proxy first, the engine beside it (it takes longest), the gateway once the data proxy hands out keys, the
trainer once there is an engine to publish to. End: trainer, gateway (drains its streams), engine, data proxy (drains the journal).
Models of other providers have a process beside the engine, where a file names some.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.launcher.child import ChildSpec
from deploy.launcher.options import UpOptions
from deploy.launcher.readiness import http_ready, socket_ready
from deploy.paths import Paths

DATAPROXY = "dataproxy"
ENGINE = "engine"
EXTERNAL = "external"
GATEWAY = "gateway"
TRAINER = "trainer"

STARTS_AFTER: Mapping[str, tuple[str, ...]] = {
    DATAPROXY: (),
    ENGINE: (),
    EXTERNAL: (),
    GATEWAY: (DATAPROXY,),
    TRAINER: (DATAPROXY, ENGINE, GATEWAY),
}
STOP_ORDER = (TRAINER, GATEWAY, ENGINE, EXTERNAL, DATAPROXY)


@dataclass(slots=True, frozen=True)
class Served:
    """The weights an engine starts with: a model directory and the policy version's name."""

    directory: Path
    version: str


@dataclass(slots=True, frozen=True)
class Endpoints:
    """Base URLs, without ``/v1``; ``external`` is None where no models of other providers are served."""

    gateway: str
    engine: str
    external: str | None = None

    @property
    def workers(self) -> list[str]:
        """What the gateway sends calls to."""
        return [self.engine, *([self.external] if self.external else [])]


Serving = Callable[[], Awaitable[Served]]


def child_specs(options: UpOptions, endpoints: Endpoints, serving: Serving, model_dir: Path) -> list[ChildSpec]:
    """The processes of one machine; the trainer is left out where ``options`` say so."""
    specs = [
        _dataproxy(options, model_dir),
        _engine(options, endpoints, serving),
        *([_external(options, endpoints.external)] if endpoints.external else []),
        _gateway(options, endpoints),
    ]
    return [*specs, _trainer(options, endpoints, model_dir)] if options.train else specs


def _environment(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with the settings of one service on top, and nothing that reaches for the network."""
    base = {"OMP_NUM_THREADS": str(min(os.cpu_count() or 2, 8)), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    fixed = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    settings = {f"HEADRACE_{prefix}_{name}": value for name, value in values.items()}
    return {**base, **os.environ, **fixed, **settings}


def _fixed(*command: str) -> Callable[[], Awaitable[list[str]]]:
    async def argv() -> list[str]:
        return [sys.executable, *command]

    return argv


def _directories(options: UpOptions) -> dict[str, str]:
    return {"DATA_DIR": str(options.paths.data_dir), "CONFIG_DIR": str(options.paths.config_dir)}


def _dataproxy(options: UpOptions, model_dir: Path) -> ChildSpec:
    values = {**_directories(options), "TOKENIZER_PATH": str(model_dir / "tokenizer.json")}
    urls = {"DATABASE_URL": options.database_url, "DATABASE_OWNER_URL": options.database_owner_url}
    values |= {name: url for name, url in urls.items() if url is not None}
    environment = _environment("DATAPROXY", values)
    return ChildSpec(DATAPROXY, _fixed("-m", "dataproxy"), environment, socket_ready(options.paths.socket), 60.0, 15.0)


def _engine(options: UpOptions, endpoints: Endpoints, serving: Serving) -> ChildSpec:
    port = endpoints.engine.rpartition(":")[2]

    async def argv() -> list[str]:
        served = await serving()
        where = ["--model-path", str(served.directory), "--served-model-name", options.model_name, "--port", port]
        how = ["--weight-version", served.version, "--dtype", options.dtype, *options.engine_args]
        return [sys.executable, "-m", "workers.inference", *where, *how]

    advice = "The engine needs about 2.5 GiB of free memory; `--model tiny` starts one that needs less and knows nothing."
    return ChildSpec(ENGINE, argv, _environment("ENGINE", {}), http_ready(f"{endpoints.engine}/ready"), 600.0, 10.0, advice)


def _external(options: UpOptions, url: str) -> ChildSpec:
    values = {"CONFIG_DIR": str(options.paths.config_dir), "PORT": url.rpartition(":")[2]}
    advice = f"See {options.paths.external_file}; without that file no models of other providers are served."
    environment = _environment("EXTERNAL", values)
    return ChildSpec(EXTERNAL, _fixed("-m", "gateway.external"), environment, http_ready(f"{url}/ready"), 120.0, 35.0, advice)


def _gateway(options: UpOptions, endpoints: Endpoints) -> ChildSpec:
    port = endpoints.gateway.rpartition(":")[2]
    values = {
        **_directories(options),
        "HOST": options.host,
        "PORT": port,
        "PROCESSES": str(options.num_gateways),
        "ENGINE_URLS": json.dumps(endpoints.workers),
    }
    ready = http_ready(f"{endpoints.gateway}/health")
    return ChildSpec(GATEWAY, _fixed("-m", "gateway"), _environment("GATEWAY", values), ready, 30.0, 50.0)


def _trainer(options: UpOptions, endpoints: Endpoints, model_dir: Path) -> ChildSpec:
    values = {
        **_directories(options),
        "ENGINE_URLS": json.dumps([endpoints.engine]),
        "MODEL_PATH": str(model_dir),
        "PUBLISH_DTYPE": options.dtype,
    }
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.num_ranks))
    command = (*torchrun, "-m", "workers.trainer") if options.num_ranks > 1 else ("-m", "workers.trainer")
    environment = _environment("TRAINER", values)
    finishes = environment.get("HEADRACE_TRAINER_MAX_STEPS", "0") != "0"
    return ChildSpec(TRAINER, _fixed(*command), environment, None, 0.0, 20.0, may_finish=finishes)


def rollback_environment(paths: Paths, stack: Mapping[str, object]) -> dict[str, str]:
    """What the publisher needs to put a version back into the running ``stack`` (the contents of the stack file)."""
    where = {"DATA_DIR": str(paths.data_dir), "CONFIG_DIR": str(paths.config_dir)}
    return _environment("TRAINER", {**where, "ENGINE_URLS": json.dumps([stack["engine"]]), "MODEL_PATH": str(stack["model_dir"])})
