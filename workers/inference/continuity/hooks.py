"""Where SGLang calls continuity: around its chat handler's rendering and encoding, and around generation.

Owns the reading of SGLang's objects. The engine renders the conversation once, as ever; at the point where it would
encode the text, the ids may come from kept turns instead. Chat, messages and responses all render through
`OpenAIServingChat`; legacy completions and count_tokens are left alone. Only requests with our cache-salt header take
part. Place in the path: step 1, in the engine's HTTP process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from workers.inference.continuity.extend import Continuity, Finish, Turn
from workers.inference.continuity.messages import UNREADABLE, Message, context_digest
from workers.inference.continuity.reasons import Reason
from workers.inference.continuity.served import ServedTemplate
from workers.inference.middleware import CURRENT, SCOPE_KEY, Order

_OPENAI: Final = "sglang.srt.entrypoints.openai"
_CHAT: Final = f"{_OPENAI}.serving_chat.OpenAIServingChat"


@dataclass(slots=True)
class Pending:
    """A prompt in the making. `reason`: why it is the engine's own, as soon as that is known."""

    salt: str
    request: Any
    max_tokens: int
    reason: Reason | None = None
    template: ServedTemplate | None = None
    messages: Sequence[Message] = ()
    context: bytes = b""
    turn: Turn | None = None


_PENDING: Final[ContextVar[Pending | None]] = ContextVar("headrace_prompt", default=None)
_MAX_OUTPUT: Final[ContextVar[int]] = ContextVar("headrace_max_output", default=0)
_CALL_IDS: Final[ContextVar[list[str] | None]] = ContextVar("headrace_call_ids", default=None)


class Hooks:
    """Registered by the plug-in: `hooks()`, and `around_generation` composed with recording."""

    def __init__(self, continuity: Continuity) -> None:
        self._continuity = continuity

    @classmethod
    def from_environment(cls) -> Hooks:
        """`HEADRACE_CONTINUITY_MB`: RAM for kept turns, in MiB (default 64; 0 keeps none, so nothing is extended)."""
        return cls(Continuity(int(float(os.environ.get("HEADRACE_CONTINUITY_MB", "64")) * 2**20)))

    def counts(self) -> dict[str, Any]:
        """What became of prompts, for the state route and through it `/metrics`."""
        return self._continuity.counts()

    def hooks(self) -> list[tuple[str, Callable[..., Any]]]:
        """Targets and hooks."""
        return [
            (f"{_CHAT}._apply_jinja_template", self.around_template),
            (f"{_CHAT}._apply_conversation_template", self.around_template),
            (f"{_CHAT}._render_and_encode_chat_template", self.around_render),
            (f"{_OPENAI}.parallel_prompt_encode.parallel_prompt_encode", self.around_encode),
            (f"{_CHAT}._process_tool_call_id", around_tool_call_id),
            (f"{_OPENAI}.serving_responses.OpenAIServingResponses._make_request", around_responses_request),
        ]

    def around_template(self, original: Callable[..., Any], serving: Any, request: Any, *rest: Any) -> Any:
        """Messages become a prompt; whatever way that goes, it is counted once."""
        order = CURRENT.get()
        if order is None or not order.generates or not order.cache_salt:
            return original(serving, request, *rest)
        max_tokens = request.max_completion_tokens or request.max_tokens or _MAX_OUTPUT.get()
        pending = Pending(order.cache_salt, request, max_tokens)
        if request.continue_final_message:
            pending.reason = Reason.CONTINUES_MESSAGE
        token = _PENDING.set(pending)
        try:
            result = original(serving, request, *rest)
        finally:
            _PENDING.reset(token)
        order.turn = pending.turn
        if pending.turn is None:
            self._continuity.rendered(pending.reason or Reason.NOT_A_TEMPLATE)
        return result

    def around_render(self, original: Callable[..., Any], serving: Any, messages: Sequence[Message], **options: Any) -> Any:
        """Note what the template gets; SGLang comes a second time, with flat tools, where the template refuses."""
        pending = _PENDING.get()
        if pending is not None and pending.reason is None:
            _note(pending, serving, messages, options)
        return original(serving, messages, **options)

    def around_encode(self, original: Callable[..., list[int]], tokenizer: Any, text: str, options: dict[str, Any]) -> list[int]:
        """The rendered text is about to be encoded: extend an earlier turn instead, if there is one."""
        pending = _PENDING.get()
        if pending is None or pending.template is None or pending.turn is not None:
            return original(tokenizer, text, options)
        pending.template.encoder = original
        manager = pending.template.serving.tokenizer_manager
        max_ids = manager.context_len - max(1, pending.max_tokens)
        choice = pending.request.tool_choice
        pending.turn = Turn(pending.salt, pending.messages, pending.context, pending.template, max_ids, choice)
        return self._continuity.prompt(pending.turn, text)

    def around_generation(self, outputs: AsyncIterator[Any], obj: Any, request: Any) -> AsyncIterator[Any]:
        """Keep the answers to a prompt that we know; `outputs` are the engine's for `obj`."""
        order: Order | None = None if request is None else request.scope.get(SCOPE_KEY)
        turn: Turn | None = None if order is None else order.turn
        if order is None or turn is None or turn.prompt is None or obj.input_ids != turn.ids:
            return outputs
        order.turn = None  # SGLang may generate again for the same call, with another prompt
        call_ids: list[str] = []
        _CALL_IDS.set(call_ids)
        return self._watch(outputs, turn, call_ids)

    async def _watch(self, outputs: AsyncIterator[Any], turn: Turn, call_ids: list[str]) -> AsyncIterator[Any]:
        async with aclosing(outputs) as source:  # type: ignore[type-var]  # an async generator of SGLang's
            async for output in source:
                for choice in output if isinstance(output, list) else [output]:
                    self._keep_if_finished(turn, choice, call_ids)
                yield output

    def _keep_if_finished(self, turn: Turn, choice: dict[str, Any], call_ids: list[str]) -> None:
        meta = choice["meta_info"]
        finish = meta.get("finish_reason")
        if finish is None or finish["type"] == "abort":
            return
        ids = choice["output_ids"]
        if len(ids) == meta["completion_tokens"] and meta["prompt_tokens"] == len(turn.ids or ()):
            self._continuity.keep(turn, ids, choice["text"], Finish(finish["type"], finish.get("matched")), call_ids)


async def around_responses_request(original: Callable[..., Any], serving: Any, request: Any, *rest: Any, **options: Any) -> Any:
    """SGLang's chat form of a responses call does not say how many tokens may be sampled."""
    token = _MAX_OUTPUT.set(request.max_output_tokens or 0)
    try:
        return await original(serving, request, *rest, **options)
    finally:
        _MAX_OUTPUT.reset(token)


def around_tool_call_id(original: Callable[..., str], serving: Any, call: Any, num_in_history: int) -> str:
    """The id under which an agent will echo a tool call of the answer that this task streams or builds."""
    call_id = original(serving, call, num_in_history)
    issued = _CALL_IDS.get()
    if issued is not None:
        issued.append(call_id)
    return call_id


def _note(pending: Pending, serving: Any, messages: Sequence[Message], options: dict[str, Any]) -> None:
    pending.reason = _unfit(options)
    if pending.reason is not None:
        return
    try:
        pending.context = context_digest(options["tools"], options["template_kwargs"], options["encode_kwargs"])
    except UNREADABLE:
        pending.reason = Reason.NOT_TEXT
        return
    pending.template = ServedTemplate(serving, pending.request, options)
    pending.messages = messages


def _unfit(options: dict[str, Any]) -> Reason | None:
    if options.get("use_cache"):
        return Reason.NOT_TEXT
    if not options.get("add_generation_prompt", True):
        return Reason.CONTINUES_MESSAGE
    return Reason.ADDED_SPECIALS if options["encode_kwargs"].get("add_special_tokens") else None
