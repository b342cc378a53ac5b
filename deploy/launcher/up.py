"""A whole start on one machine: lock, checks, keys, model, processes, first run, stack file; and all of it back again."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path

from dataproxy import keyfiles
from dataproxy.client import DataProxyClient, NotFound
from deploy.errors import DeployError
from deploy.launcher.checks import free_port, require_free_port, require_memory, require_own_name
from deploy.launcher.child import Child
from deploy.launcher.first_run import FirstRun, ensure_first_run
from deploy.launcher.lock import InstanceLock
from deploy.launcher.model import ensure_model
from deploy.launcher.options import UpOptions
from deploy.launcher.readiness import may_serve, wait_key_works
from deploy.launcher.report import Report
from deploy.launcher.stack import DATAPROXY, Endpoints, Served, child_specs, starts_after, stop_order
from deploy.launcher.supervisor import Supervisor, end_on_signals

BASE_VERSION = "v000000"

OnReady = Callable[[Endpoints, FirstRun], None]


def run(options: UpOptions, report: Report, on_ready: OnReady) -> None:
    """Run everything until Ctrl-C or SIGTERM; ``on_ready`` is called once all of it serves.

    Raises:
        DeployError: it could not start; nothing is left running.
    """
    with InstanceLock(options.paths.run_dir):
        require_free_port(options.host, options.port)
        require_memory(options.needed_bytes, f"Headrace with the model {options.model}")
        require_own_name(options.model_name, options.paths.external_file)
        keyfiles.ensure(options.paths.config_dir)
        try:
            asyncio.run(_Up(options, report, on_ready).run())
        except* DeployError as group:
            raise _first(group) from None
        finally:
            options.paths.stack_file.unlink(missing_ok=True)


def _first(group: BaseExceptionGroup[DeployError]) -> DeployError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, DeployError)
    return error


class _Up:
    def __init__(self, options: UpOptions, report: Report, on_ready: OnReady) -> None:
        self._options = options
        self._paths = options.paths
        self._report = report
        self._on_ready = on_ready
        port = options.port or free_port(options.host)
        external = f"http://127.0.0.1:{free_port()}" if options.paths.external_file.exists() else None
        engine, *more = (f"http://127.0.0.1:{free_port()}" for _ in range(options.num_workers))
        self._endpoints = Endpoints(f"http://{options.host}:{port}", engine, external, tuple(more))
        self._base_dir = Path()
        self._children: dict[str, Child] = {}

    async def run(self) -> None:
        ended = asyncio.Event()
        end_on_signals(ended, self._children)
        with self._report.waiting("making the model ready"):
            model_dir = await _unless(ended, ensure_model(self._options))
        if model_dir is None:
            return
        self._base_dir = model_dir
        for spec in child_specs(self._options, self._endpoints, self._serving, model_dir):
            log_path, pid_path = self._paths.log_dir / f"{spec.name}.log", self._paths.run_dir / f"{spec.name}.pid"
            self._children[spec.name] = Child(spec, log_path, pid_path, self._report.say)
        self._report.say(f"logs: {self._paths.log_dir}")
        after, order = starts_after(self._options.num_workers), stop_order(self._options.num_workers)
        await Supervisor(self._children, after, order).run(ended, self._report, self._ready)

    async def _ready(self) -> None:
        options = self._options
        async with self._client() as client:
            first = await ensure_first_run(client, options.tenant, options.train_consent, make_key=not options.for_program)
        if first.key is not None:
            await asyncio.to_thread(wait_key_works, self._endpoints.gateway, first.key)
        if not await may_serve(self._endpoints.gateway):
            self._report.say("no worker may serve yet; `headrace workers` says why")
        self._write_stack_file()
        self._on_ready(self._endpoints, first)

    def _client(self) -> DataProxyClient:
        return DataProxyClient(self._paths.socket, keyfiles.KeyFiles(self._paths.config_dir).api_key("admin"))

    async def _serving(self) -> Served:
        """What an engine starts with: the version that serves by the data proxy's record, else the model as it came."""
        versions = self._paths.data_dir / "versions"
        if versions.is_dir() and any(versions.iterdir()):
            await self._children[DATAPROXY].is_ready.wait()
            with contextlib.suppress(NotFound):
                async with self._client() as client:
                    version = await client.serving_version()
                    return Served(Path(version.directory), version.version)
        return Served(self._base_dir, BASE_VERSION)

    def _write_stack_file(self) -> None:
        """Whole or not at all: its presence means that everything is ready."""
        body = {
            "pid": os.getpid(),
            "gateway": self._endpoints.gateway,
            "engine": self._endpoints.engine,
            "engines": self._endpoints.engines,
            "model": self._options.model_name,
            "model_dir": str(self._base_dir),
            "dtype": self._options.dtype,
            "processes": list(self._children),
        }
        temporary = self._paths.stack_file.with_suffix(".tmp")
        temporary.write_text(json.dumps(body, indent=2))
        temporary.rename(self._paths.stack_file)


async def _unless(ended: asyncio.Event, work: Coroutine[None, None, Path]) -> Path | None:
    """The result of ``work``, or None if ``ended`` came first."""
    task, stop = asyncio.create_task(work), asyncio.create_task(ended.wait())
    await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        return task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return None
