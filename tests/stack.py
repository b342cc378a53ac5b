"""The whole of Headrace for end-to-end tests: ``headrace up`` on free ports and a directory of its own, with the tiny model.

with running_stack(tmp_path, "--no-train") as stack:
    key = stack.new_agent("acme", "bot", training=False, reason="test")
    ... stack.gateway, stack.engine, stack.client(), stack.pid("gateway"), stack.paths.data_dir ...
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.launcher.running import RunningStack
from deploy.paths import Paths


@contextmanager
def running_stack(directory: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[RunningStack]:
    """A ready stack; ``arguments`` are those of ``headrace up``, ``environment`` goes to every process of it."""
    paths = Paths(directory / "data", directory / "config")
    with RunningStack.start(paths, ["--model", "tiny", *arguments], environment) as stack:
        yield stack.wait_ready()
