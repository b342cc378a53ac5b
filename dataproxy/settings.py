"""The data proxy's settings: HEADRACE_DATAPROXY_* in the environment, over defaults. Read once, in ``__main__``."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from dataproxy.errors import Refused

_PREFIX = "HEADRACE_DATAPROXY_"


class Settings(BaseSettings):
    """Frozen; an unknown variable of ours is an error."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid", use_attribute_docstrings=True)

    data_dir: Path = Path("~/.local/share/headrace")
    """Holds journal/, store/ and run/."""

    config_dir: Path = Path("~/.config/headrace")
    """Holds the key files, outside the data directory."""

    tokenizer_path: Path | None = None
    """The engine's tokenizer.json. Without it, exchanges that carry token ids go to the quarantine."""

    mask_id: int = Field(default=16, ge=0)
    """The reserved token id that overwrites redacted ids; no text encodes to it."""

    max_altered: float = Field(default=0.15, ge=0, le=1)
    """A sample with a larger share of overwritten ids does not train."""

    allow_truncated: bool = True
    """Whether answers that were cut by length train."""

    settle_s: float = Field(default=2.0, ge=0)
    """Seconds without a call after which a rewarded trajectory may be leased, where the agent has no rule of its own."""

    session_idle_s: float = Field(default=300.0, gt=0)
    """Seconds without a call after which a new conversation under the same session name opens another trajectory."""

    pending_days: float = Field(default=1.0, gt=0)
    """Days that a reward waits for its exchange before it becomes a dead letter."""

    batch_size: int = Field(default=128, ge=1)
    """Exchanges the drain stores in one transaction."""

    log_json: bool = False
    """One JSON object a log line."""


def check_environment(environment: dict[str, str]) -> None:
    """Refuse variables with our prefix that no setting has.

    Raises:
        Refused: with the name of the first one.
    """
    known = {(_PREFIX + name).upper() for name in Settings.model_fields}
    for name in sorted(environment):
        if name.upper().startswith(_PREFIX) and name.upper() not in known:
            raise Refused(f"{name} is no setting of the data proxy; it knows {', '.join(sorted(known))}")
