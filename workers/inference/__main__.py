"""`python -m workers.inference`: becomes one SGLang server with Headrace's plug-in and, without a GPU, the CPU profile.

Owns the arguments. The process replaces itself by SGLang's launcher, so the supervisor's child is the engine itself. It
dies with its parent: the kernel sends it SIGKILL (PR_SET_PDEATHSIG survives exec), and SGLang asks the same for its
scheduler and detokenizer. Place in the path: before step 1.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

from workers.inference.errors import InferenceError
from workers.inference.launch import LaunchOptions, command, environment
from workers.inference.templates import FROM_TEMPLATE

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    options = _parse(sys.argv[1:])
    try:
        env = environment(options, os.environ)
    except InferenceError as error:
        sys.exit(f"workers.inference: {error}")
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was told
        sys.exit("workers.inference: the supervisor has ended")
    arguments = command(options)
    os.execve(arguments[0], arguments, env | {"HEADRACE_ENGINE_PID": str(os.getpid())})


def _parse(arguments: list[str]) -> LaunchOptions:
    defaults = LaunchOptions(Path(), 0, "")
    parser = argparse.ArgumentParser(prog="python -m workers.inference", description=__doc__)
    parser.add_argument("--model-path", type=Path, required=True, help="Hugging Face directory")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", default=defaults.host)
    parser.add_argument("--weight-version", default=defaults.weight_version, help="name of the weights in --model-path")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default=defaults.dtype)
    parser.add_argument("--max-total-tokens", type=int, default=defaults.max_total_tokens, help="KV cache in tokens")
    parser.add_argument("--max-running-requests", type=int, default=defaults.max_running_requests)
    parser.add_argument("--num-threads", type=int, default=defaults.num_threads, help="OpenMP threads (CPU hosts)")
    for kind in ("tool-call", "reasoning"):
        help_text = f"SGLang's {kind} format, auto (from the chat template) or none"
        parser.add_argument(f"--{kind}-parser", default=FROM_TEMPLATE, help=help_text)
    known, extra = parser.parse_known_args(arguments)  # the rest is SGLang's
    return LaunchOptions(**vars(known), extra=tuple(extra))


if __name__ == "__main__":
    main()
