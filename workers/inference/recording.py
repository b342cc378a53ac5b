"""Feeds recorders from SGLang's tokenizer manager. Runs in SGLang's HTTP process.

Owns the request fields that the gateway decides (rid, cache salt), the switching on of logprobs, and their removal again where
the agent did not ask for them. Works below the dialects: chat, responses and messages all pass `generate_request`. Not
owned: the record (`record`) and its place in the answer (`middleware`). Place in the path: step 1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from workers.inference.middleware import SCOPE_KEY, Order
from workers.inference.record import Recorder

_LOGPROB_KEYS: Final = ("input_token_logprobs", "output_token_logprobs", "output_token_logprobs_length")


class Recording:
    """The recorders of all requests in flight by the engine's rids; the methods are hooks."""

    def __init__(self, engine_version: str) -> None:
        self._engine_version = engine_version
        self._by_rid: dict[str, Recorder] = {}
        self.num_aborted = 0

    def around_generate(self, original: Callable[..., Any], manager: Any, obj: Any, request: Any = None) -> Any:
        """Apply the gateway's order to `obj` and, where a record is wanted, watch the outputs."""
        order: Order | None = None if request is None else request.scope.get(SCOPE_KEY)
        if order is None:
            return original(manager, obj, request)
        if order.rid is not None:
            obj.rid = order.rid
        if order.cache_salt is not None:
            obj.cache_salt = order.cache_salt or None
        if not order.wants_record or order.rid is None:
            return original(manager, obj, request)
        order.record = self._open(order.rid, manager.served_model_name, obj)
        return self._watch(original, manager, obj, request, order.record)

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
        if recorder is None or not recorder.sample_rids:
            return original(manager, rid=rid, abort_all=abort_all)
        for sample in recorder.sample_rids:
            original(manager, rid=sample)
        return None

    def forget(self, recorder: Recorder) -> None:
        """The request is over."""
        for rid in (recorder.rid, *_initial_rids(recorder), *recorder.sample_rids):
            self._by_rid.pop(rid, None)

    def _open(self, rid: str, model: str, obj: Any) -> Recorder:
        recorder = Recorder(rid, model, self._engine_version)
        recorder.expect((obj.sampling_params or {}).get("n") or 1)
        for own in (rid, *_initial_rids(recorder)):
            self._by_rid.setdefault(own, recorder)
        return recorder

    async def _watch(
        self, original: Callable[..., Any], manager: Any, obj: Any, request: Any, recorder: Recorder
    ) -> AsyncIterator[Any]:
        asked_for_logprobs = bool(obj.return_logprob)
        if not asked_for_logprobs:
            obj.return_logprob = True
            obj.return_text_in_logprobs = False
        async with aclosing(original(manager, obj, request)) as outputs:
            async for output in outputs:
                for index, choice in enumerate(output if isinstance(output, list) else [output]):
                    self._see(recorder, choice.get("index", index), choice)
                    if not asked_for_logprobs:
                        for key in _LOGPROB_KEYS:
                            choice["meta_info"].pop(key, None)
                yield output

    def _see(self, recorder: Recorder, index: int, choice: dict[str, Any]) -> None:
        meta = choice["meta_info"]
        recorder.on_output(index, choice)
        meta["id"] = recorder.rid  # n > 1: every choice answers under the request's own id
        if (meta.get("finish_reason") or {}).get("type") == "abort":
            self.num_aborted += 1


def _initial_rids(recorder: Recorder) -> list[str]:
    """SGLang names the parts of an n > 1 request by index before it gives each sample a rid of its own."""
    return [f"{recorder.rid}_{index}" for index in range(recorder.num_choices)] if recorder.num_choices > 1 else []
