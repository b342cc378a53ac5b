"""Whether the trainer computes the logprobs that the engine sampled by: ``python -m bench.logprobs``.

A real SGLang serves SmolLM2 once in float32 and once in bfloat16 and answers at temperature 1. The trainer's own forward, as a step
takes it, goes over the very ids of each answer in both dtypes. Of |engine - trainer| per sampled token: the median, the 99th
percentile, the largest, and n. The last line printed is one JSON line, kept in ``bench/results/logprobs.json``. Two minutes where
the processor multiplies bfloat16; elsewhere torch emulates it, and ``--max-tokens 16`` keeps that within minutes too.
"""

import argparse
import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from numpy.typing import NDArray

from atdp import arrays
from bench.engine import MODEL_NAME, engine
from deploy.paths import cache_dir
from workers.inference.model import DType, ensure_smollm2
from workers.trainer.hardware import fast_dtype
from workers.trainer.packing import pack
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks, start_ranks, stop_ranks
from workers.trainer.rows import Row

RESULT = Path(__file__).with_name("results") / "logprobs.json"
DTYPES: tuple[DType, ...] = ("float32", "bfloat16")
_QUESTIONS = (
    "Where is my order 4711?",
    "Ich möchte mein Geld zurück – sofort! 🙂",
    "列出三种河流",
    "Write a Python function that adds two numbers.",
    "Name three rivers and the sea that each of them reaches.",
    "What is a hash chain good for?",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.logprobs", description="Engine's logprobs against the trainer's.")
    parser.add_argument("--max-tokens", type=int, default=64, help="longest answer (%(default)s)")
    asked = parser.parse_args()
    ranks = start_ranks()
    found: dict[str, Any] = {"bench": "logprobs", "cores": os.cpu_count(), "bfloat16_in_hardware": fast_dtype() == "bfloat16"}
    for served in DTYPES:
        model = ensure_smollm2(cache_dir(), served)
        rows = answers(model, served, asked.max_tokens)
        for computed in DTYPES:
            found[f"engine_{served}_trainer_{computed}"] = summary(differences(model, computed, rows, ranks))
            print(f"engine {served}, trainer {computed}: {found[f'engine_{served}_trainer_{computed}']}", flush=True)
    stop_ranks()
    RESULT.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


def answers(model: Path, dtype: DType, max_tokens: int) -> list[Row]:
    """What an engine that computes in ``dtype`` sampled, one row an answer, as its plug-in handed it over."""
    with tempfile.TemporaryDirectory() as directory, engine(model, Path(directory), "--dtype", dtype) as url:
        return [_row(_ask(url, question, max_tokens)) for question in _QUESTIONS]


def _ask(url: str, question: str, max_tokens: int) -> dict[str, Any]:
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": question}], "temperature": 1, "max_tokens": max_tokens}
    headers = {"x-headrace-record": "1", "x-headrace-rid": f"chatcmpl-{uuid.uuid4().hex}"}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=600, trust_env=False)
    answer.raise_for_status()
    record: dict[str, Any] = answer.json()["headrace_record"]
    return record


def _row(record: dict[str, Any]) -> Row:
    """All that was sampled, as the trainer would train on it."""
    choice = record["choices"][0]
    prompt, output = arrays.decode(record["prompt_ids"], arrays.INT32), arrays.decode(choice["output_ids"], arrays.INT32)
    token_ids = np.concatenate([prompt, output]).astype(np.int32)
    sampled = np.arange(len(token_ids)) >= len(prompt)
    behaviour = np.concatenate([np.zeros(len(prompt)), arrays.decode(choice["logprobs"], arrays.FLOAT32)]).astype(np.float32)
    return Row(token_ids, sampled, behaviour, sampled, 1.0, np.zeros(len(token_ids), np.float32), 1.0)


def differences(model: Path, dtype: DType, rows: list[Row], ranks: Ranks) -> NDArray[np.float32]:
    """|engine - trainer| of each sampled token, the trainer computing in ``dtype``: [N] float32."""
    policy, found = Policy(model, ranks, dtype), []
    for row in rows:
        with torch.no_grad():
            logprobs, _ = policy.logprobs(pack([row]))
        policy.release()
        found.append(np.abs(logprobs.float().numpy() - row.behaviour[row.trained]))
    return np.concatenate(found)


def summary(differences: NDArray[np.float32]) -> dict[str, float]:
    """Median, 99th percentile, largest, and how many."""
    middle, high = np.quantile(differences, [0.5, 0.99])
    return {"median": float(middle), "p99": float(high), "max": float(differences.max()), "n": len(differences)}


if __name__ == "__main__":
    main()
