"""The data proxy's settings: HEADRACE_DATAPROXY_* in the environment, over defaults. Read once, in ``__main__``."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from dataproxy.errors import Refused

PREFIX = "HEADRACE_DATAPROXY_"


class Settings(BaseSettings):
    """Frozen; an unknown variable of ours is an error."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", use_attribute_docstrings=True)

    data_dir: Path = Path("~/.local/share/headrace")
    """Holds journal/, store/ and run/."""

    config_dir: Path = Path("~/.config/headrace")
    """Holds the key files, outside the data directory."""

    database_url: SecretStr | None = None
    """A PostgreSQL database to keep the store in: postgresql+psycopg://role@host/database. Without it: SQLite in store/."""

    database_owner_url: SecretStr | None = None
    """The same database by the role that owns it; used for migrations alone, and not needed once they are done."""

    journal_key: SecretStr | None = None
    """The journal's private keys, hex, instead of the key files: the current one, and behind it any that old segments need."""

    journal_key_command: str | None = None
    """A shell command that prints them, such as one that asks a key service. Goes above ``journal_key``."""

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

    checkpoints_path: Path | None = None
    """The append-only file of signed checkpoints; best on a disk that the database's writers cannot reach. Without it: ledger/."""

    checkpoint_leaves: int = Field(default=1024, ge=1)
    """Leaves of a tenant's log after which a checkpoint is cut."""

    checkpoint_s: float = Field(default=60.0, gt=0)
    """Seconds after which one is cut however few leaves there are new."""

    retention_s: float = Field(default=3600.0, gt=0)
    """Seconds between two looks for what has outlived its retention."""

    log_json: bool = False
    """One JSON object a log line."""


def check_environment(environment: dict[str, str]) -> None:
    """Refuse variables with our prefix that no setting has.

    Raises:
        Refused: with the name of the first one.
    """
    known = {(PREFIX + name).upper() for name in Settings.model_fields}
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            raise Refused(f"{name} is no setting of the data proxy; it knows {', '.join(sorted(known))}")
