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
KEEPER = "keeper"


def engine_names(num_workers: int) -> list[str]:
    """``engine``, ``engine-2``, …"""
    return [ENGINE, *(f"{ENGINE}-{number}" for number in range(2, num_workers + 1))]


def starts_after(num_workers: int) -> dict[str, tuple[str, ...]]:
    """What each process waits for."""
    engines = engine_names(num_workers)
    free: dict[str, tuple[str, ...]] = {name: () for name in (DATAPROXY, EXTERNAL, *engines)}
    return {**free, GATEWAY: (DATAPROXY,), KEEPER: (DATAPROXY, GATEWAY), TRAINER: (DATAPROXY, GATEWAY, *engines)}


def stop_order(num_workers: int) -> tuple[str, ...]:
    """Who ends first: what changes weights, then what takes calls, then what answers them."""
    return (TRAINER, KEEPER, GATEWAY, *engine_names(num_workers), EXTERNAL, DATAPROXY)


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
    more_engines: tuple[str, ...] = ()

    @property
    def engines(self) -> list[str]:
        """Every engine of ours."""
        return [self.engine, *self.more_engines]

    @property
    def workers(self) -> list[str]:
        """What the gateway sends calls to."""
        return [*self.engines, *([self.external] if self.external else [])]


Serving = Callable[[], Awaitable[Served]]


def child_specs(options: UpOptions, endpoints: Endpoints, serving: Serving, model_dir: Path) -> list[ChildSpec]:
    """The processes of one machine; the trainer is left out where ``options`` say so."""
    specs = [
        _dataproxy(options, model_dir),
        *(
            _engine(options, name, url, serving)
            for name, url in zip(engine_names(options.num_workers), endpoints.engines, strict=True)
        ),
        *([_external(options, endpoints.external)] if endpoints.external else []),
        _gateway(options, endpoints),
        _keeper(options, endpoints, model_dir),
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


def _engine(options: UpOptions, name: str, url: str, serving: Serving) -> ChildSpec:
    port = url.rpartition(":")[2]

    async def argv() -> list[str]:
        served = await serving()
        where = ["--model-path", str(served.directory), "--served-model-name", options.model_name, "--port", port]
        how = ["--weight-version", served.version, "--dtype", options.dtype, *options.engine_args]
        return [sys.executable, "-m", "workers.inference", *where, *how]

    advice = "The engine needs about 2.5 GiB of free memory; `--model tiny` starts one that needs less and knows nothing."
    return ChildSpec(name, argv, _environment("ENGINE", {}), http_ready(f"{url}/ready"), 600.0, 10.0, advice)


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
        "EXTERNAL_URLS": json.dumps([endpoints.external] if endpoints.external else []),
    }
    ready = http_ready(f"{endpoints.gateway}/health")
    return ChildSpec(GATEWAY, _fixed("-m", "gateway"), _environment("GATEWAY", values), ready, 30.0, 50.0)


def _publishing(options: UpOptions, endpoints: Endpoints, model_dir: Path) -> dict[str, str]:
    """What trainer and keeper are told alike."""
    where = {"ENGINE_URLS": json.dumps(endpoints.engines), "GATEWAY_URL": endpoints.gateway, "MODEL_PATH": str(model_dir)}
    return {**_directories(options), **where, "PUBLISH_DTYPE": options.dtype}


def _keeper(options: UpOptions, endpoints: Endpoints, model_dir: Path) -> ChildSpec:
    environment = _environment("TRAINER", _publishing(options, endpoints, model_dir))
    return ChildSpec(KEEPER, _fixed("-m", "workers.trainer.keeper"), environment, None, 0.0, 20.0)


def _trainer(options: UpOptions, endpoints: Endpoints, model_dir: Path) -> ChildSpec:
    values = _publishing(options, endpoints, model_dir)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.num_ranks))
    command = (*torchrun, "-m", "workers.trainer") if options.num_ranks > 1 else ("-m", "workers.trainer")
    environment = _environment("TRAINER", values)
    finishes = environment.get("HEADRACE_TRAINER_MAX_STEPS", "0") != "0"
    return ChildSpec(TRAINER, _fixed(*command), environment, None, 0.0, 20.0, may_finish=finishes)


def rollback_environment(paths: Paths, stack: Mapping[str, object]) -> dict[str, str]:
    """What a publisher or a trainer beside the running ``stack`` (the contents of the stack file) is told: as its own one was."""
    where = {"DATA_DIR": str(paths.data_dir), "CONFIG_DIR": str(paths.config_dir)}
    engines = {"ENGINE_URLS": json.dumps(stack["engines"]), "GATEWAY_URL": str(stack["gateway"])}
    model = {"MODEL_PATH": str(stack["model_dir"]), "PUBLISH_DTYPE": str(stack["dtype"])}
    return _environment("TRAINER", {**where, **engines, **model})
