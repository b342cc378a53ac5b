"""Feeds recorders from SGLang's tokenizer manager. Runs in SGLang's HTTP process.

Owns the request fields that the gateway decides (rid, cache salt), the switching on of logprobs and their removal again where
the agent did not ask for them, and the abort of a request whose client is gone. Works below the dialects: they all pass
`generate_request`. Not owned: the record (`record`), its place in the answer (`middleware`). Place in the path: step 1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from workers.inference.dialects.refusals import as_refusal, check_biases
from workers.inference.middleware import BAD_VALUE, SCOPE_KEY, Order
from workers.inference.record import Recorder

if TYPE_CHECKING:
    from workers.inference.adapters import Adapters

MAX_SAMPLES: Final = 128
MAX_TOP_LOGPROBS: Final = 128
_LOGPROB_KEYS: Final = ("input_token_logprobs", "output_token_logprobs", "output_token_logprobs_length")


class Recording:
    """The recorders of all requests in flight by the engine's rids; the methods are hooks."""

    def __init__(self, engine_version: str, adapters: Adapters) -> None:
        self._engine_version = engine_version
        self._adapters = adapters
        self._by_rid: dict[str, Recorder] = {}
        self._manager: Any = None
        self.num_aborted = 0
        self.num_received = 0

    def around_generate(self, original: Callable[..., Any], manager: Any, obj: Any, request: Any = None) -> Any:
        """Apply the gateway's order to `obj` and watch the outputs; logprobs only where a record is wanted."""
        order: Order | None = None if request is None else request.scope.get(SCOPE_KEY)
        if order is None:
            return original(manager, obj, request)
        if order.cache_salt is not None:
            obj.cache_salt = order.cache_salt or None
        if order.rid is None:
            return original(manager, obj, request)
        check_prompt_ids(obj.input_ids, manager.model_config.vocab_size)
        if not order.generates:
            check_lengths(obj.input_ids)
            obj.rid = part_rids(order.rid, obj)
            return _refusing(original(manager, obj, request))
        obj.rid = order.rid
        self._manager = manager
        order.record = self._open(order.rid, manager.served_model_name, obj)
        return self._watch(original, manager, obj, request, order, order.record)

    async def around_resolve(self, original: Callable[..., Any], manager: Any, obj: Any) -> Any:
        """Give a request of ours the adapter that serves now, if one does: it has waited for any pause by here."""
        rids = obj.rid if isinstance(obj.rid, list) else [obj.rid]
        recorder = self._by_rid.get(rids[0])
        if recorder is not None and recorder.adapter is None and (held := self._adapters.begin()) is not None:
            recorder.adapter = held
            obj.lora_path = held.name if obj.is_single else [held.name] * len(rids)
            for part in obj.__dict__.get("_sub_obj_cache", {}).values():  # SGLang counts, and lets go, by these
                part.lora_path = held.name
        return await original(manager, obj)

    async def around_send(self, original: Callable[..., Any], manager: Any, tokenized: Any) -> Any:
        """See the request as the scheduler gets it: rendered prompt ids and normalised sampling parameters."""
        recorder = self._by_rid.get(tokenized.rid)
        if recorder is not None:
            recorder.on_dispatch(tokenized.input_ids, tokenized.sampling_params)
        return await original(manager, tokenized)

    def around_regenerate_rid(self, original: Callable[..., str], obj: Any) -> str:
        """Samples of one request (n > 1) get rids that begin with its own, so that one abort reaches all."""
        recorder = self._by_rid.get(obj.rid) if isinstance(obj.rid, str) else None
        if recorder is None:
            return original(obj)
        rid = recorder.next_sample_rid()
        self._by_rid[rid] = recorder
        obj.rid = rid
        return rid

    def around_abort(self, original: Callable[..., Any], manager: Any, rid: str = "", abort_all: bool = False) -> Any:
        recorder = None if abort_all else self._by_rid.get(rid)
        if recorder is None or rid != recorder.rid or recorder.num_choices == 1:
            return original(manager, rid=rid, abort_all=abort_all)
        for own in (*recorder.initial_rids, *recorder.sample_rids):
            original(manager, rid=own)
        return None

    def forget(self, order: Order) -> None:
        """The request is over: what still runs for it has nobody waiting, unless it was meant to."""
        recorder = order.record
        if recorder is None:
            return
        if self._by_rid.get(recorder.rid) is not recorder:  # a second call under a rid in flight: the first goes on
            return
        if not recorder.finished and not order.is_detached:
            self._manager.abort_request(recorder.rid)
        for rid in (recorder.rid, *recorder.initial_rids, *recorder.sample_rids):
            self._by_rid.pop(rid, None)

    def _open(self, rid: str, model: str, obj: Any) -> Recorder:
        self.num_received += 1
        recorder = Recorder(rid, model, self._engine_version)
        params = obj.sampling_params or {}
        num_samples = params.get("n", 1)
        check_sizes(num_samples, obj.top_logprobs_num)
        check_biases(params.get("logit_bias"))
        if params.get("stop_regex"):
            raise ValueError("stop_regex is not served, since one pattern can hold the engine for everybody; use stop")
        recorder.expect(num_samples, _num_prompts(obj))
        for own in (rid, *recorder.initial_rids):
            self._by_rid.setdefault(own, recorder)
        return recorder

    async def _watch(
        self, original: Callable[..., Any], manager: Any, obj: Any, request: Any, order: Order, recorder: Recorder
    ) -> AsyncIterator[Any]:
        adds_logprobs = order.wants_record and not obj.return_logprob
        if adds_logprobs:
            obj.return_logprob = True
            obj.return_text_in_logprobs = False
        has_begun = False
        try:
            async with aclosing(original(manager, obj, request)) as outputs:
                async for output in outputs:
                    has_begun = True
                    for index, choice in enumerate(output if isinstance(output, list) else [output]):
                        self._see(recorder, choice.get("index", index), choice)
                        if adds_logprobs:
                            for key in _LOGPROB_KEYS:
                                choice["meta_info"].pop(key, None)
                    yield output
        except BAD_VALUE as error:
            if has_begun or (recorder.dispatched and not isinstance(error, ValueError)):
                raise
            refusal = as_refusal(error)
            order.refusal = str(refusal)
            raise refusal from error
        finally:
            self._adapters.end(manager, recorder.adapter)

    def _see(self, recorder: Recorder, index: int, choice: dict[str, Any]) -> None:
        meta = choice["meta_info"]
        if recorder.adapter is not None and not recorder.adapter.stamp(meta):
            recorder.defect = "the weights under its adapter were replaced"
        recorder.on_output(index, choice)
        meta["id"] = recorder.rid  # n > 1: every choice answers under the request's own id
        if (meta.get("finish_reason") or {}).get("type") == "abort":
            self.num_aborted += 1


async def _refusing(outputs: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
    """`outputs` of a call that samples nothing; what the engine's code stumbles over is the caller's mistake."""
    async with aclosing(outputs) as source:
        try:
            async for output in source:
                yield output
        except BAD_VALUE as error:
            raise as_refusal(error) from error


def check_sizes(num_samples: int, top_logprobs: Any) -> None:
    """Refuse what would take the engine from everybody: SGLang has no limits of its own here.

    Raises:
        ValueError: n = -1 is sampled and counted wrong, n = 100,000 fills the queue for minutes, and more top logprobs than the
            vocabulary has end the scheduler.
    """
    if num_samples < 1:
        raise ValueError(f"n must be at least 1, got {num_samples}")
    if num_samples > MAX_SAMPLES:
        raise ValueError(f"n must be at most {MAX_SAMPLES}, got {num_samples}")
    if isinstance(top_logprobs, int) and top_logprobs > MAX_TOP_LOGPROBS:
        raise ValueError(f"top_logprobs must be at most {MAX_TOP_LOGPROBS}, got {top_logprobs}")


def check_prompt_ids(prompts: Any, vocab_size: int) -> None:
    """Refuse ids [P] or [N][P] that the vocabulary lacks: SGLang looks them up unchecked, and its scheduler ends.

    Raises:
        ValueError: with the range.
    """
    for ids in prompts if prompts and isinstance(prompts[0], list) else [prompts]:
        if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
            raise ValueError(f"the prompt's token ids must lie between 0 and {vocab_size - 1}")


def check_lengths(prompts: Any) -> None:
    """Refuse an empty list among ids [N][P] that are to be embedded: nothing to pool ends the scheduler.

    Raises:
        ValueError: one is empty.
    """
    if prompts is not None and not all(prompts if prompts and isinstance(prompts[0], list) else [prompts]):
        raise ValueError("an input has no tokens")


def part_rids(rid: str, obj: Any) -> str | list[str]:
    """The ids of a call that embeds: its own, or one for each of several inputs, as SGLang wants them."""
    is_batch = isinstance(obj.text, list) or (obj.input_ids and isinstance(obj.input_ids[0], list))
    return [f"{rid}_{index}" for index in range(_num_prompts(obj))] if is_batch else rid


def _num_prompts(obj: Any) -> int:
    """Legacy completions take several prompts in one call."""
    if isinstance(obj.text, list):
        return len(obj.text)
    return len(obj.input_ids) if obj.input_ids and isinstance(obj.input_ids[0], list) else 1
