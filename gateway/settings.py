"""Settings of the gateway: arguments over ``HEADRACE_GATEWAY_*`` over a TOML file over defaults. Read once, in ``__main__``."""

import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt
from pydantic import BeforeValidator, Field, IPvAnyNetwork
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from router.choose import Policy

ENV_PREFIX = "HEADRACE_GATEWAY_"
CONFIG_FILE = f"{ENV_PREFIX}CONFIG_FILE"
"""Environment variable that names the TOML file; a named file must exist."""

Seconds = Annotated[float, Gt(0)]
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(str.upper)]
"""No lower one: the server's own tracing below DEBUG writes headers."""


class Settings(BaseSettings):
    """Resolved settings of one gateway process."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on."""
    processes: int = Field(1, ge=1, le=32)
    """Gateway processes on this port, which behave as one."""
    port: int = Field(8080, ge=0, le=65535)
    """Port to listen on; 0 takes a free one, which is logged."""
    engine_urls: tuple[str, ...] = ("http://127.0.0.1:30000",)
    """Base URL of each SGLang worker, as a JSON list."""
    external_urls: tuple[str, ...] = ()
    """Which of these are proxies of other providers (`python -m gateway.external`): no weights of ours, so none to compare."""
    data_dir: Path = Path("~/.local/share/headrace")
    """Holds the journal and the data proxy's socket."""
    config_dir: Path = Path("~/.config/headrace")
    """Holds the key files."""
    journal_durability: Literal["strict", "relaxed"] = "strict"
    """strict: an answer's end waits for the disk. relaxed: it survives a crash of the process, not a loss of power."""
    journal_segment_bytes: int = Field(64 << 20, ge=4096)
    """Size at which the journal begins a new segment, under a new key."""
    journal_segment_age_s: Seconds = 600.0
    """Age at which it does."""
    journal_min_free_bytes: int = Field(64 << 20, ge=0)
    """Free space of the journal's disk below which no recorded call is let in."""
    max_body_bytes: int = Field(16 << 20, gt=0)
    """Largest request body, after decompression; beyond it 413."""
    body_timeout_s: Seconds = 30.0
    """Longest pause in a request body, longest whole head, and a tenth of the longest whole body; beyond them 408."""
    connect_timeout_s: Seconds = 2.0
    """Longest wait for a connection to an engine; after it the next one is tried."""
    first_byte_timeout_s: Seconds = 600.0
    """Longest wait for the engine's status line; its queue and the prefill count. Beyond it 504."""
    idle_timeout_s: Seconds = 300.0
    """Longest pause between two parts of an engine's answer."""
    total_timeout_s: Seconds = 3600.0
    """Longest whole answer."""
    control_timeout_s: Seconds = 5.0
    """Longest small call: readiness, key table, feedback, abort."""
    keys_wait_s: Seconds = 5.0
    """How long a call waits for the first key table after a start; beyond it 503."""
    max_waiting: int = Field(1024, ge=0)
    """Most calls that wait for a worker; beyond them 429."""
    max_waiting_per_key: int = Field(256, ge=0)
    """Most calls of one key that wait."""
    max_wait_s: Seconds = 60.0
    """Longest wait for a worker, not counting swaps of weights; beyond it 429."""
    max_swap_wait_s: Seconds = 300.0
    """Longest wait, a swap of weights included."""
    tenant_max_concurrency: int | None = Field(None, ge=1)
    """Most calls that one tenant runs at once; more wait. None: no limit."""
    worker_max_running: int | None = Field(None, ge=1)
    """Calls that a worker runs at once where it does not say so itself; more wait in the fair queue. None: no limit."""
    routing: Policy = "affinity"
    """How calls are spread over workers: affinity, least-loaded or round-robin."""
    canary_per_mille: int = Field(0, ge=0, le=1000)
    """Share of the sessions that go to workers of the canary lane; the register of workers may say otherwise."""
    worker_ranges: tuple[IPvAnyNetwork, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    """Where registered workers may lie, as a JSON list of networks. Metadata services and link-local addresses never may."""
    drain_timeout_s: int = Field(30, ge=1)
    """How long running answers may go on after SIGTERM."""
    user_is_session: bool = False
    """Whether the body's ``user`` names a session where nothing else does."""
    log_level: Level = "INFO"
    """Level of the JSON log on standard error: DEBUG, INFO, WARNING or ERROR. None of them shows contents, headers or keys."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Highest first; no dotenv, no secrets directory."""
        path = os.environ.get(CONFIG_FILE)
        file = (TomlConfigSettingsSource(settings_cls, Path(path)),) if path else ()
        return init_settings, env_settings, *file


def load(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings out of ``arguments`` (``--port 8081``) and the environment.

    Raises:
        ValueError: an unknown variable or setting, or a value that does not fit.
        FileNotFoundError: the named TOML file is missing.
    """
    known = {CONFIG_FILE, *(ENV_PREFIX + name.upper() for name in Settings.model_fields)}
    if unknown := sorted(name for name in environment if name.startswith(ENV_PREFIX) and name.upper() not in known):
        raise ValueError(f"unknown settings in the environment: {', '.join(unknown)}")
    path = environment.get(CONFIG_FILE)
    if path and not Path(path).is_file():
        raise FileNotFoundError(f"{CONFIG_FILE} names {path}, which does not exist")
    cli = CliSettingsSource[object](Settings, cli_prog_name="gateway", cli_kebab_case=True, cli_parse_args=list(arguments))
    return Settings(_cli_settings_source=cli)  # type: ignore[call-arg]  # mypy without pydantic's plug-in
