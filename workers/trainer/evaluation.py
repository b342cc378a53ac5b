"""Evaluation: a held-out score of a version, taken before it serves and kept with it.

What is scored, and how, is the user's own: a callable `module:function`, given the version's directory (a Hugging Face folder), or
a command in which `{directory}` stands for it and whose last line of output is JSON. Either gives a number or an object of numbers.
A score says how a version did; it does not decide whether it serves. Place in the path: step 3, between directory and publish.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from workers.trainer.errors import EvaluationFailed

_CALLABLE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SHOWN_CHARACTERS: Final = 500


def evaluate(what: str, directory: Path, timeout_s: float) -> dict[str, float]:
    """The scores of the version in `directory`, each named `eval_…`. A command is ended after `timeout_s`; a callable is not.

    Raises: EvaluationFailed.
    """
    found = _call(what, directory) if _CALLABLE.fullmatch(what) else _run(what, directory, timeout_s)
    scores: dict[str, float] = {}
    for name, value in (found if isinstance(found, Mapping) else {"score": found}).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise EvaluationFailed(f"{what} gave {value!r} for {name}; a score is a number")
        scores[f"eval_{name}"] = float(value)
    if not scores:
        raise EvaluationFailed(f"{what} gave no score")
    return scores


def _call(what: str, directory: Path) -> object:
    module, _, name = what.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise EvaluationFailed(f"{what} is not there: {error}") from error
    try:
        return function(directory)
    except Exception as error:  # the user's code; its failure is a fact about the evaluation, not about the step
        raise EvaluationFailed(f"{what} failed: {type(error).__name__}: {error}") from error


def _run(what: str, directory: Path, timeout_s: float) -> object:
    command = [part.replace("{directory}", str(directory)) for part in shlex.split(what)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    except subprocess.TimeoutExpired as error:
        raise EvaluationFailed(f"{command[0]} took more than {timeout_s:g} s") from error
    except subprocess.CalledProcessError as error:
        raise EvaluationFailed(
            f"{command[0]} ended with {error.returncode}: {error.stderr.strip()[-_SHOWN_CHARACTERS:]}"
        ) from error
    except OSError as error:
        raise EvaluationFailed(f"{command[0]} cannot be run: {error}") from error
    lines = done.stdout.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else {}
    except ValueError as error:
        raise EvaluationFailed(f"the last line of {command[0]} is not JSON: {lines[-1][:_SHOWN_CHARACTERS]!r}") from error
