"""Publishing: a complete version directory becomes what the engines serve, and goes on record.

Owns the order under one lock: the parent still serves? → "published" → swap, verified by checksum → "serving" (or "failed"),
and the way back to an earlier version. `python -m workers.trainer.publish --version v000003` rolls back while traffic runs;
it needs no training set-up. Not owned: making a version (`loop`), the swap on one engine (`workers.inference`).
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

from atdp.versions import PolicyVersion
from dataproxy.client import DataProxyClientError, NotFound, SyncDataProxyClient
from workers.trainer.data_proxy import VersionRegister
from workers.trainer.engines import EngineFleet, Engines, SwapResult
from workers.trainer.errors import Superseded, SwapFailed, TrainerError
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish_lock import publish_lock
from workers.trainer.settings import Settings
from workers.trainer.version_directory import BASE_VERSION, adopt_base, read_manifest, read_scores, verify

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class Publisher:
    """Publishes versions of one data directory to one set of engines."""

    def __init__(self, paths: TrainerPaths, register: VersionRegister, engines: Engines) -> None:
        self._paths = paths
        self._register = register
        self._engines = engines

    def serving(self) -> str | None:
        """The version on record as serving."""
        try:
            return self._register.serving_version().version
        except NotFound:
            return None

    def publish_base(self, model: Path) -> None:
        """Put v000000 on record as serving, if nothing is; the engines started with it.

        Raises: SwapFailed where they hold other weights.
        """
        directory = adopt_base(self._paths.versions, model, _now_us())
        with publish_lock(self._paths.publish_lock):
            if self.serving() is None:
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
            serving = self.serving()
            if serving not in (manifest.parent, manifest.version):
                raise Superseded(f"{serving} serves now, so {manifest.version} with its parent {manifest.parent} will not")
            self._register.register_version(version)
            back = None if serving is None else self._paths.versions / serving
            try:
                return self._swap(version, directory, weights, back)
            except SwapFailed:
                self._register.register_version(replace(version, state="failed"))
                raise

    def roll_back(self, name: str) -> SwapResult:
        """Make an earlier version serve again, under traffic.

        Raises:
            VersionUnavailable: its directory was collected or is damaged.
            SwapFailed: what served goes on serving.
        """
        with publish_lock(self._paths.publish_lock):
            before = self._register.get_version(name)
            verify(Path(before.directory))
            serving = self.serving()
            back = None if serving is None else self._paths.versions / serving
            return self._swap(before, Path(before.directory), None, back)

    def _swap(self, version: PolicyVersion, directory: Path, weights: Mapping[str, Tensor] | None, back: Path | None) -> SwapResult:
        """Swap and say so; a version that served before must show the checksum that it had."""
        result = self._engines.swap(version.version, directory, weights, version.checksum, back)
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


def main() -> None:
    """Roll back to a version by name."""
    parser = argparse.ArgumentParser(prog="python -m workers.trainer.publish", description="Make an earlier version serve again.")
    parser.add_argument("--version", required=True, help="a name such as v000003")
    parser.add_argument("--rollback", action="store_true", help="accepted for clarity; it is what this command does")
    arguments = parser.parse_args()
    settings = Settings()  # type: ignore[call-arg]  # from the environment
    paths = TrainerPaths(settings.data_dir)
    try:
        with SyncDataProxyClient(paths.socket, settings.api_key()) as client:
            result = Publisher(paths, client, EngineFleet(settings.engine_urls)).roll_back(arguments.version)
    except (TrainerError, DataProxyClientError) as error:
        sys.exit(f"{arguments.version} was not put back: {error}")
    print(f"{arguments.version} serves (checksum {result.checksum}, paused {result.paused_s:.3f} s)")


if __name__ == "__main__":
    main()
