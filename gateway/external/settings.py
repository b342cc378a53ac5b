"""Settings of the process of external models: ``HEADRACE_EXTERNAL_*`` over defaults."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

FILE_NAME = "external.toml"


class Settings(BaseSettings):
    """Resolved settings."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_EXTERNAL_", extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on. Whoever reaches it spends the providers' keys: only the gateway should."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8090
    """Port to listen on."""
    config_dir: Path = Path("~/.config/headrace")
    """Holds the file of models."""
    models_file: Path | None = None
    """The file of models; ``external.toml`` in ``config_dir`` unless named."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Longest wait for a provider."""
    max_calls: Annotated[int, Field(gt=0)] = 256
    """Calls at once, as told to the gateway; beyond them it queues."""
    log_level: str = "INFO"
    """Level of the log."""

    def catalog_path(self) -> Path:
        """Where the models stand."""
        return (self.models_file or self.config_dir / FILE_NAME).expanduser()
