"""Publishing: a complete version directory becomes what the engines serve, and goes on record.

Owns the order under one lock: the parent still serves? → "published" → swap, verified by checksum → "serving" (or "failed"),
the way back to an earlier version, and a canary's beginning and end. `python -m workers.trainer.publish --version v000003` makes
a version serve while traffic runs; it needs no training set-up. Not owned: making a version (`loop`), the order among engines
(`engines`), the swap on one of them (`workers.inference`).
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from atdp import faults
from atdp.versions import PolicyVersion
from dataproxy.client import DataProxyClientError, NotFound, SyncDataProxyClient
from workers.trainer.data_proxy import VersionRegister
from workers.trainer.engines import EngineFleet, Engines, SwapResult, Transport
from workers.trainer.errors import CanaryRefused, Superseded, SwapFailed, TrainerError
from workers.trainer.fleet import FixedFleet, GatewayFleet
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish_lock import publish_lock
from workers.trainer.settings import Settings
from workers.trainer.version_directory import BASE_VERSION, adopt_base, read_manifest, read_scores, verify

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class Publisher:
    """Publishes versions of one data directory to one fleet of engines."""

    def __init__(self, paths: TrainerPaths, register: VersionRegister, engines: Engines) -> None:
        self._paths = paths
        self._register = register
        self._engines = engines

    def serving(self) -> str | None:
        """The version on record as serving."""
        record = self._serving()
        return None if record is None else record.version

    def in_use(self) -> set[str]:
        """The versions that engines hold by the record: what serves, and a canary."""
        return {record.version for record in self._register.list_versions() if record.state in ("serving", "canary")}

    def publish_base(self, model: Path) -> None:
        """Put v000000 on record as serving, if nothing is; the engines started with it.

        Raises: SwapFailed where they hold other weights.
        """
        directory = adopt_base(self._paths.versions, model, _now_us())
        with publish_lock(self._paths.publish_lock):
            if self._serving() is None:
                checksum = self._engines.checksum(directory)
                self._register.register_version(
                    PolicyVersion(BASE_VERSION, None, "serving", read_manifest(directory).created_us, str(directory), checksum)
                )

    def publish(self, directory: Path, weights: Mapping[str, Tensor] | None = None) -> SwapResult:
        """Make a complete version serve. May be repeated after a crash: what is done is not undone.

        Raises:
            Superseded: its parent does not serve any more; nothing was changed.
            SwapFailed: the old version serves; the new one is on record as failed.
        """
        manifest = read_manifest(directory)
        version = PolicyVersion(
            manifest.version,
            manifest.parent,
            "published",
            manifest.created_us,
            str(directory),
            None,
            manifest.batch_id,
            {**manifest.metrics, **read_scores(directory)},
        )
        with publish_lock(self._paths.publish_lock):
            back = self._serving()
            serving = None if back is None else back.version
            if serving not in (manifest.parent, manifest.version):
                raise Superseded(f"{serving} serves now, so {manifest.version} with its parent {manifest.parent} will not")
            self._register.register_version(version)
            try:
                return self._swap(version, weights, back)
            except SwapFailed:
                self._register.register_version(replace(version, state="failed"))
                raise

    def make_serve(self, name: str) -> SwapResult:
        """Make a version on record serve, under traffic: back to an earlier one, or a canary for everybody. A canary ends.

        Raises:
            VersionUnavailable: its directory was collected or is damaged.
            SwapFailed: what served goes on serving.
        """
        with publish_lock(self._paths.publish_lock):
            wanted, canary = self._register.get_version(name), self._canary()
            verify(Path(wanted.directory))
            self._engines.end_canary()
            if canary is not None and canary.version != name:
                self._register.register_version(replace(canary, state="retired"))
            return self._swap(wanted, None, self._serving())

    def begin_canary(self, name: str, share: float) -> SwapResult:
        """Let a version serve a share of the sessions beside what serves; if it does already, change the share.

        Raises:
            CanaryRefused: there is one worker only, another canary runs, or the version serves already or failed.
            VersionUnavailable: as `make_serve`.
            SwapFailed: no worker of the canary lane took it; the share is 0 again.
        """
        with publish_lock(self._paths.publish_lock):
            wanted, running, serving = self._register.get_version(name), self._canary(), self._serving()
            if wanted.state in ("serving", "failed"):
                said = "serves everybody already" if wanted.state == "serving" else "failed when it was swapped in"
                raise CanaryRefused(f"{name} {said}")
            if running is not None and running.version != name:
                raise CanaryRefused(
                    f"{running.version} is a canary; end it first with `headrace versions promote` or `headrace rollback`"
                )
            verify(Path(wanted.directory))
            result = self._engines.begin_canary(wanted, serving, share)
            self._register.register_version(replace(wanted, state="canary", checksum=result.checksum))
            return result

    def _serving(self) -> PolicyVersion | None:
        try:
            return self._register.serving_version()
        except NotFound:
            return None

    def _canary(self) -> PolicyVersion | None:
        return next((record for record in self._register.list_versions() if record.state == "canary"), None)

    def _swap(self, version: PolicyVersion, weights: Mapping[str, Tensor] | None, back: PolicyVersion | None) -> SwapResult:
        """Swap and say so; a version that served before must show the checksum that it had."""
        result = self._engines.swap(version, weights, back)
        faults.point("trainer.before_serving")
        self._register.register_version(
            replace(version, state="serving", checksum=result.checksum, metrics={**result.numbers(), **version.metrics})
        )
        logger.info(
            "%s serves, checksum %s, paused %.3f s, %d in flight",
            version.version,
            result.checksum,
            result.paused_s,
            result.num_in_flight_before,
        )
        return result


def _now_us() -> int:
    return time.time_ns() // 1000


def engines_of(settings: Settings) -> EngineFleet:
    """The engines that `settings` name: the gateway's workers, or those listed."""
    fleet = GatewayFleet(settings.gateway_url, settings.api_key()) if settings.gateway_url else FixedFleet(settings.engine_urls)
    return EngineFleet(fleet, Transport(settings.swap, settings.swap_host))


def main() -> None:
    """Make a version serve, everybody or a share of the sessions."""
    parser = argparse.ArgumentParser(prog="python -m workers.trainer.publish", description=__doc__)
    parser.add_argument("--version", required=True, help="a name such as v000003")
    parser.add_argument("--rollback", action="store_true", help="accepted for clarity; it is what this command does")
    parser.add_argument("--canary", type=float, metavar="SHARE", help="only for this share of the sessions")
    arguments = parser.parse_args()
    settings = Settings()  # type: ignore[call-arg]  # from the environment
    paths, name = TrainerPaths(settings.data_dir), arguments.version
    if arguments.canary is not None and not settings.gateway_url:
        sys.exit("a canary needs a gateway that routes sessions to it: set HEADRACE_TRAINER_GATEWAY_URL")
    try:
        with SyncDataProxyClient(paths.socket, settings.api_key()) as client:
            publisher = Publisher(paths, client, engines_of(settings))
            result = publisher.make_serve(name) if arguments.canary is None else publisher.begin_canary(name, arguments.canary)
    except (TrainerError, DataProxyClientError) as error:
        sys.exit(f"{name} does not serve: {error}")
    print(f"{name} serves (checksum {result.checksum}, paused {result.paused_s:.3f} s)")


if __name__ == "__main__":
    main()
