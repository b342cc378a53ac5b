"""Where things lie: the data directory, the configuration directory beside it, and the cache of converted models."""

import os
from dataclasses import dataclass
from pathlib import Path


def _xdg(variable: str, fallback: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / fallback) / "headrace"


def default_data_dir() -> Path:
    """``HEADRACE_DATA_DIR``, else ``~/.local/share/headrace``."""
    named = os.environ.get("HEADRACE_DATA_DIR")
    return Path(named) if named else _xdg("XDG_DATA_HOME", ".local/share")


def default_config_dir() -> Path:
    """``HEADRACE_CONFIG_DIR``, else ``~/.config/headrace``: keys lie here, outside the data directory and its backups."""
    named = os.environ.get("HEADRACE_CONFIG_DIR")
    return Path(named) if named else _xdg("XDG_CONFIG_HOME", ".config")


def cache_dir() -> Path:
    """``HEADRACE_CACHE_DIR``, else ``~/.cache/headrace``: what can be made again."""
    named = os.environ.get("HEADRACE_CACHE_DIR")
    return Path(named) if named else _xdg("XDG_CACHE_HOME", ".cache")


@dataclass(slots=True, frozen=True)
class Paths:
    """The two directories of one Headrace, and what the launcher keeps in them."""

    data_dir: Path
    config_dir: Path

    @property
    def run_dir(self) -> Path:
        """Locks, pids and the socket: empty when nothing runs."""
        return self.data_dir / "run"

    @property
    def log_dir(self) -> Path:
        """One log file per process."""
        return self.data_dir / "logs"

    @property
    def socket(self) -> Path:
        """The data proxy's Unix socket."""
        return self.run_dir / "dataproxy.sock"

    @property
    def external_file(self) -> Path:
        """Models of other providers, if somebody wrote it."""
        return self.config_dir / "external.toml"

    @property
    def stack_file(self) -> Path:
        """What runs and where, written once everything is ready."""
        return self.run_dir / "stack.json"
