"""Where SGLang calls continuity: around its chat handler's conversion, rendering, encoding and generation.

Owns the reading of SGLang's objects. The engine renders the conversation once, as ever; at the point where it would
encode the text, the ids may come from kept turns instead. Chat, messages and responses all render through
`OpenAIServingChat`; legacy completions and count_tokens are left alone. Only requests with our cache-salt header take
part. Place in the path: step 1, in the engine's HTTP process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from workers.inference.continuity.extend import Continuity, Finish, Turn
from workers.inference.continuity.messages import Message, context_digest
from workers.inference.continuity.reasons import Reason
from workers.inference.continuity.served import ServedTemplate
from workers.inference.middleware import SCOPE_KEY, Order

TURN_KEY: Final = "headrace.turn"


@dataclass(slots=True)
class Pending:
    """A request of ours before it generates. `reason`: why its prompt is the engine's, as soon as that is known."""

    salt: str
    max_tokens: int
    request: Any = None
    reason: Reason | None = None
    template: ServedTemplate | None = None
    messages: Sequence[Message] = ()
    context: bytes = b""
    turn: Turn | None = None


@dataclass(slots=True)
class Hooks:
    """The hooks by their targets in `targets`; `around_generate` is composed by the plug-in."""

    continuity: Continuity
    _pending: ContextVar[Pending | None] = field(default_factory=lambda: ContextVar("headrace_pending", default=None))
    _call_ids: ContextVar[list[str] | None] = field(default_factory=lambda: ContextVar("headrace_call_ids", default=None))

    def targets(self) -> dict[str, Callable[..., Any]]:
        openai = "sglang.srt.entrypoints.openai"
        chat = f"{openai}.serving_chat.OpenAIServingChat"
        return {
            f"{chat}._convert_to_internal_request": self.around_convert,
            f"{openai}.serving_responses.OpenAIServingResponses.create_responses": self.around_responses,
            f"{chat}._process_messages": self.around_process,
            f"{chat}._render_and_encode_chat_template": self.around_render,
            f"{openai}.parallel_prompt_encode.parallel_prompt_encode": self.around_encode,
            f"{chat}._process_tool_call_id": self.around_tool_call_id,
        }

    def around_convert(self, original: Callable[..., Any], serving: Any, request: Any, raw_request: Any = None) -> Any:
        """Chat and messages: the conversion to an engine request, in a worker thread or on the loop."""
        with self._open(raw_request, request.max_completion_tokens or request.max_tokens):
            return original(serving, request, raw_request)

    async def around_responses(self, original: Callable[..., Any], serving: Any, request: Any, raw_request: Any = None) -> Any:
        with self._open(raw_request, request.max_output_tokens):
            return await original(serving, request, raw_request)

    def around_process(self, original: Callable[..., Any], serving: Any, request: Any, is_multimodal: bool, **options: Any) -> Any:
        """One chat request's messages become ids; whatever way that goes, it is counted once."""
        pending = self._pending.get()
        if pending is None or pending.request is not None:
            return original(serving, request, is_multimodal, **options)
        pending.request = request
        if is_multimodal:
            pending.reason = Reason.NOT_TEXT
        elif request.continue_final_message or request.input_ids is not None:
            pending.reason = Reason.CONTINUES_MESSAGE
        result = original(serving, request, is_multimodal, **options)
        if pending.turn is None:
            self.continuity.rendered(pending.reason or Reason.NOT_A_TEMPLATE)
        return result

    def around_render(self, original: Callable[..., Any], serving: Any, messages: Sequence[Message], **options: Any) -> Any:
        """Note what the template gets; SGLang calls this a second time with flat tools where the template refuses."""
        pending = self._pending.get()
        if pending is not None and pending.request is not None and pending.reason is None:
            pending.reason = _unfit(options)
            if pending.reason is None:
                pending.template = ServedTemplate(serving, pending.request, options)
                pending.messages = messages
                pending.context = context_digest(options["tools"], options["template_kwargs"], options["encode_kwargs"])
        return original(serving, messages, **options)

    def around_encode(self, original: Callable[..., list[int]], tokenizer: Any, text: str, options: dict[str, Any]) -> list[int]:
        """The rendered text is about to be encoded: extend an earlier turn instead, if there is one."""
        pending = self._pending.get()
        if pending is None or pending.template is None or pending.turn is not None:
            return original(tokenizer, text, options)
        pending.template.encoder = original
        manager = pending.template.serving.tokenizer_manager
        max_ids = manager.context_len - max(1, pending.max_tokens)
        choice = pending.request.tool_choice
        pending.turn = Turn(pending.salt, pending.messages, pending.context, pending.template, max_ids, choice)
        return self.continuity.prompt(pending.turn, text)

    def around_tool_call_id(self, original: Callable[..., str], serving: Any, call: Any, num_in_history: int) -> str:
        """The id under which an agent will echo a tool call of the answer in this context."""
        call_id = original(serving, call, num_in_history)
        issued = self._call_ids.get()
        if issued is not None:
            issued.append(call_id)
        return call_id

    def watch(self, outputs: AsyncIterator[Any], obj: Any, request: Any) -> AsyncIterator[Any]:
        """Keep the answers of a request whose prompt we know; `outputs` are the engine's."""
        pending: Pending | None = None if request is None else request.scope.pop(TURN_KEY, None)
        if pending is None or pending.turn is None or pending.turn.prompt is None or obj.input_ids != pending.turn.ids:
            return outputs
        call_ids: list[str] = []
        self._call_ids.set(call_ids)
        return self._watch(outputs, pending.turn, call_ids)

    async def _watch(self, outputs: AsyncIterator[Any], turn: Turn, call_ids: list[str]) -> AsyncIterator[Any]:
        async with aclosing(outputs) as open_outputs:  # type: ignore[type-var]
            async for output in open_outputs:
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
            self.continuity.keep(turn, ids, choice["text"], Finish(finish["type"], finish.get("matched")), call_ids)

    @contextmanager
    def _open(self, raw_request: Any, max_tokens: int | None) -> Iterator[None]:
        order: Order | None = None if raw_request is None else raw_request.scope.get(SCOPE_KEY)
        if order is None or not order.cache_salt:
            yield
            return
        pending = Pending(order.cache_salt, max_tokens or 0)
        raw_request.scope[TURN_KEY] = pending
        token = self._pending.set(pending)
        try:
            yield
        finally:
            self._pending.reset(token)


def _unfit(options: dict[str, Any]) -> Reason | None:
    if options.get("use_cache"):
        return Reason.NOT_TEXT
    if not options.get("add_generation_prompt", True):
        return Reason.CONTINUES_MESSAGE
    return Reason.ADDED_SPECIALS if options["encode_kwargs"].get("add_special_tokens") else None
