"""The command line and environment of one SGLang server.

Owns the flags that suit Headrace: what a swap needs, what keeps answers exact, and what a small CPU host can afford. Not owned: the
process's life (whoever starts `python -m workers.inference` supervises it). Place in the path: before step 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Literal

from workers.inference import cpu_profile
from workers.inference.errors import PluginNotInstalled
from workers.inference.templates import FROM_TEMPLATE, tool_call_parser

PLUGIN_GROUP: Final = "sglang.srt.plugins"
PLUGIN_NAME: Final = "headrace"

NO_PARSER: Final = "none"
ENABLE_LORA: Final = "--enable-lora"
UNPINNED: Final = "HEADRACE_UNPINNED"
"""Read by `cpu_profile.unpinned`, which needs torch; this module does without."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What differs between two engines. `num_threads` bounds OpenMP, `max_total_tokens` the KV cache (tokens).

    The parsers are SGLang's names of formats, `auto` for the one that the chat template speaks, or `none`. A template that knows
    neither tools nor reasoning, as SmolLM2's, leaves the answer's text as it is.
    """

    model_path: Path
    port: int
    served_model_name: str
    weight_version: str = "v000000"
    host: str = "127.0.0.1"
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_total_tokens: int = 32768
    max_running_requests: int = 32
    num_threads: int = 2
    tool_call_parser: str = FROM_TEMPLATE
    reasoning_parser: str = FROM_TEMPLATE
    extra: tuple[str, ...] = ()


def command(options: LaunchOptions) -> list[str]:
    """The argument vector of SGLang's own launcher."""
    arguments = [
        sys.executable, "-m", "sglang.launch_server",
        "--model-path", str(options.model_path), "--served-model-name", options.served_model_name,
        "--host", options.host, "--port", str(options.port),
        "--dtype", options.dtype, "--weight-version", options.weight_version,
        "--max-total-tokens", str(options.max_total_tokens),
        "--max-running-requests", str(options.max_running_requests),
        "--log-level", "info", "--log-level-http", "warning",
        "--sleep-on-idle",  # its scheduler would spin on a core that others need
        "--enable-response-store",  # previous_response_id; the plug-in bounds it
    ]  # fmt: skip
    calls = options.tool_call_parser
    calls = tool_call_parser(options.model_path) if calls == FROM_TEMPLATE else calls
    for flag, parser in (("--tool-call-parser", calls), ("--reasoning-parser", options.reasoning_parser)):
        arguments += [flag, parser] if parser != NO_PARSER else []
    if cpu_profile.applies():
        arguments += ["--device", "cpu", "--attention-backend", "torch_native", "--chunked-prefill-size", "2048"]
        arguments += ["--lora-backend", "torch_native"] if ENABLE_LORA in options.extra else []
    return [*arguments, *options.extra]


def environment(options: LaunchOptions, base: Mapping[str, str]) -> dict[str, str]:
    """`base` with what SGLang reads from the environment. The root of this package is importable in every process of it.

    Raises: PluginNotInstalled where SGLang would not find the plug-in and answer without records.
    """
    if not any(entry.name == PLUGIN_NAME for entry in entry_points(group=PLUGIN_GROUP)):
        raise PluginNotInstalled(
            f"no plug-in {PLUGIN_NAME!r} among the entry points {PLUGIN_GROUP!r}; "
            "install Headrace into SGLang's environment: pip install -e ."
        )
    root = Path(__file__).parents[2]
    path = os.pathsep.join(entry for entry in (str(root), base.get("PYTHONPATH", "")) if entry)
    wanted = {
        **base,
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",  # or every /health costs a generation
        "SGL_FORCE_SHUTDOWN": "1",  # the gateway drains first: what is left at SIGTERM has nobody waiting for it
    }
    if not cpu_profile.applies():
        return wanted
    unpinned = {UNPINNED: "1"} if ENABLE_LORA in options.extra else {}
    return cpu_profile.environment(wanted, options.num_threads) | unpinned
