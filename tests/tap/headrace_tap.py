"""A tap of the tests' own inside SGLang's scheduler: what the engine was given and what it sampled, as the scheduler had it.

Shares no code with Headrace's plug-in, which lives in another process of the engine. Put this directory on PYTHONPATH and name a
file in HEADRACE_TEST_TAP: one JSON line per finished request, {rid, prompt_ids, output_ids, versions (one per
output id), num_cached (prompt tokens found in the prefix cache), num_scored (tokens it had and computed logprobs of)}.
"""

import json
import multiprocessing
import os
from pathlib import Path

_SCHEDULER = "sglang.srt.managers.scheduler_components"
_seen: dict[str, list[str]] = {}
_scored: dict[str, int] = {}


def register() -> None:
    """SGLang calls this in each of its processes; only the scheduler streams outputs."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    process = multiprocessing.current_process()
    if "HEADRACE_TEST_TAP" in os.environ and "scheduler" in getattr(getattr(process, "_target", None), "__name__", ""):
        HookRegistry.register(f"{_SCHEDULER}.output_streamer.SchedulerOutputStreamer.stream_output", _before, HookType.BEFORE)
        scorer = f"{_SCHEDULER}.logprob_result_processor.SchedulerLogprobResultProcessor"
        HookRegistry.register(f"{scorer}.calculate_num_input_logprobs", _count, HookType.AFTER)


def _count(num, scorer, req, *args) -> None:  # type: ignore[no-untyped-def]
    _scored[req.rid] = _scored.get(req.rid, 0) + num


def _before(streamer, reqs, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]
    from sglang.srt.runtime_context import get_serving

    version = get_serving().weight_version
    for req in reqs:
        versions = _seen.setdefault(req.rid, [])
        versions += [version] * (len(req.output_ids) - len(versions))
        if req.finished() and not req.finished_output:
            _write(req, _seen.pop(req.rid))


def _write(req, versions: list[str]) -> None:  # type: ignore[no-untyped-def]
    end = len(req.output_ids) if req.finished_len is None else req.finished_len
    line = {
        "rid": req.rid,
        "prompt_ids": list(req.origin_input_ids),
        "output_ids": list(req.output_ids)[:end],
        "versions": versions[:end],
        "num_cached": req.cached_tokens,
        "num_scored": _scored.pop(req.rid, 0),
    }
    with Path(os.environ["HEADRACE_TEST_TAP"]).open("a") as tap:
        tap.write(json.dumps(line) + "\n")
