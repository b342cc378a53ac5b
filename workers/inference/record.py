"""The exact record of one request: what the engine was given and what it sampled, id for id.

Owns the record's JSON and the checks that decide whether it may be called complete. Knows nothing of SGLang but the
shape of its outputs, so it is tested without an engine. Not owned: where the pieces come from (`recording`) and how
the record reaches the answer (`middleware`). Place in the path: step 1, inside the engine's HTTP process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from atdp import arrays

RECORD_VERSION: Final = 1
ALL_TOKENS: Final = -1
SEVERAL_PROMPTS: Final = "more than one prompt in one call"
_TOP_K_ALL: Final = 1 << 30


class ChoiceRecord(msgspec.Struct, frozen=True):
    """Sampled tokens of one choice. output_ids [N] int32 and logprobs [N] float32 in base64; spans cover [0, N)."""

    index: int
    output_ids: str
    logprobs: str
    versions: list[tuple[str, int, int]]
    finish_reason: str | None


class EngineRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the gateway takes out of an answer. Made here, sealed by the gateway, read by the data proxy.

    `incomplete` names why it must not be trained on: `aborted`, or which lengths or ids disagree. Nothing is padded.
    """

    v: int
    rid: str
    model: str
    engine: dict[str, str]
    prompt_ids: str
    sampling: dict[str, Any]
    choices: list[ChoiceRecord]
    incomplete: str | None = None


class Recorder:
    """Collects one request's record while the engine answers. Single-threaded: lives on the engine's event loop.

    `adapter` is what it samples with beside the base weights (`adapters.Held`), `defect` why its tokens bear no version for sure.
    """

    def __init__(self, rid: str, model: str, engine_version: str) -> None:
        self.rid = rid
        self._model = model
        self._engine = {"name": "sglang", "version": engine_version}
        self._num_choices = 1
        self._num_prompts = 1
        self._prompt_ids: Sequence[int] | None = None
        self._sampling: dict[str, Any] = {}
        self._outputs: dict[int, Mapping[str, Any]] = {}
        self.sample_rids: list[str] = []
        self.adapter: Any = None
        self.defect: str | None = None

    @property
    def num_choices(self) -> int:
        return self._num_choices

    @property
    def dispatched(self) -> bool:
        """True once the scheduler has been given a part of the request."""
        return self._prompt_ids is not None

    @property
    def finished(self) -> bool:
        """True once the last output of every choice was seen."""
        return len(self._outputs) == self._num_choices

    @property
    def finish_reason(self) -> Mapping[str, Any]:
        """SGLang's own finish reason of the first choice: `type`, and `matched` where a stop string or token ended it."""
        return self._outputs[0]["finish_reason"] if 0 in self._outputs else {}

    @property
    def initial_rids(self) -> list[str]:
        """SGLang names the parts of a request by index before it gives each of n samples a rid of its own."""
        return [f"{self.rid}_{index}" for index in range(self._num_choices)] if self._num_choices > 1 else []

    def expect(self, num_samples: int, num_prompts: int = 1) -> None:
        self._num_choices, self._num_prompts = num_samples * num_prompts, num_prompts

    def next_sample_rid(self) -> str:
        """The engine's own rid of the next sample when n > 1; it starts with this request's rid."""
        self.sample_rids.append(f"{self.rid}_s{len(self.sample_rids)}")
        return self.sample_rids[-1]

    def on_dispatch(self, prompt_ids: Sequence[int], sampling: Any) -> None:
        """Note what goes to the scheduler: prompt_ids [P] and SGLang's normalised SamplingParams."""
        self._prompt_ids = list(prompt_ids)
        self._sampling = effective_sampling(sampling)

    def on_output(self, index: int, output: Mapping[str, Any]) -> None:
        """Keep the last output of choice `index`; earlier ones are parts of it."""
        if output["meta_info"].get("finish_reason") is not None:
            meta = output["meta_info"]
            kept = ("completion_tokens", "output_token_logprobs", "weight_versions")
            # a copy: the chat handler writes "tool_calls" into its own, and the record keeps why the engine stopped
            finish = {"finish_reason": dict(meta["finish_reason"])}
            self._outputs[index] = {"output_ids": list(output["output_ids"]), **{key: meta.get(key) for key in kept}, **finish}

    def encode(self) -> bytes | None:
        """The record's JSON, or None where the engine never took the request."""
        if self._prompt_ids is None or not self.finished:
            return None
        choices, reasons = [], [SEVERAL_PROMPTS if self._num_prompts > 1 else None, self.defect]
        for index in sorted(self._outputs):
            choice, reason = _choice(index, self._outputs[index])
            choices.append(choice)
            reasons.append(reason)
        record = EngineRecord(
            v=RECORD_VERSION,
            rid=self.rid,
            model=self._model,
            engine=self._engine,
            prompt_ids=arrays.encode(np.asarray(self._prompt_ids), arrays.INT32),
            sampling=self._sampling,
            choices=choices,
            incomplete=next((reason for reason in reasons if reason is not None), None),
        )
        return msgspec.json.encode(record)


def effective_sampling(params: Any) -> dict[str, Any]:
    """SGLang's SamplingParams after its defaults, as JSON. Greedy is temperature 1 with top_k 1, as SGLang has it."""
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": ALL_TOKENS if params.top_k >= _TOP_K_ALL else params.top_k,
        "min_p": params.min_p,
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "repetition_penalty": params.repetition_penalty,
        "logit_bias": params.logit_bias,
        "max_new_tokens": params.max_new_tokens,
        "min_new_tokens": params.min_new_tokens,
        "stop": _as_list(params.stop_strs),
        "stop_token_ids": sorted(params.stop_token_ids or ()),
        "ignore_eos": params.ignore_eos,
        "grammar": any((params.json_schema, params.regex, params.ebnf, params.structural_tag)),
        "custom": params.custom_params is not None,
        "greedy": params.top_k == 1,
    }


def _as_list(stop: str | Sequence[str] | None) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop or ())


def _choice(index: int, output: Mapping[str, Any]) -> tuple[ChoiceRecord, str | None]:
    """One choice and the reason why it is not complete, if there is one."""
    ids: list[int] = output["output_ids"]
    scored: Sequence[Sequence[Any]] = output["output_token_logprobs"] or []
    spans = [(span["version"], span["start"], span["end"]) for span in output["weight_versions"] or []]
    finish = output["finish_reason"]
    choice = ChoiceRecord(
        index=index,
        output_ids=arrays.encode(np.asarray(ids), arrays.INT32),
        logprobs=arrays.encode(np.asarray([entry[0] for entry in scored], dtype=np.float32), arrays.FLOAT32),
        versions=spans,
        finish_reason=finish["type"],
    )
    return choice, _disagreement(ids, [entry[1] for entry in scored], spans, output["completion_tokens"], finish)


def _disagreement(
    ids: list[int], scored_ids: list[int], spans: list[tuple[str, int, int]], num_tokens: int, finish: Mapping[str, Any]
) -> str | None:
    if finish["type"] == "abort":
        return "aborted"
    if len(ids) != num_tokens:
        return f"{len(ids)} ids for {num_tokens} tokens"
    if scored_ids != ids:
        return f"logprobs of {len(scored_ids)} tokens do not belong to the {len(ids)} ids"
    ends = [0, *(end for _, _, end in spans)]
    if [start for _, start, _ in spans] != ends[:-1] or ends[-1] != len(ids):
        return "version spans do not cover the ids"
    return None
