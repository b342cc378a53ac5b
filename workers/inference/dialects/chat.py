"""What must reach the model whatever its chat template knows. For all dialects: they all render through the chat handler.

Owns four repairs. Arguments of an earlier tool call that are not a JSON object go into the template as the text that they are
(SGLang answers 400: a model that once wrote broken JSON could never go on). `developer` is `system` where the template has
no word for it (most templates drop it without a sound). Several system messages become one, in order, where the template renders
the first alone. An assistant's message at the end stays the assistant's (SGLang makes it the user's). Place in the path: step 1,
before the prompt is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workers.inference.dialects.refusals import around_conversion
from workers.inference.middleware import CURRENT, SCOPE_KEY, repairing


def around_convert(original: Callable[..., Any], serving: Any, request: Any, raw_request: Any = None) -> Any:
    """SGLang renders chat calls in a thread of a pool: the order of the request comes along."""
    order = None if raw_request is None else raw_request.scope.get(SCOPE_KEY)
    if order is None:
        return original(serving, request, raw_request)
    token = CURRENT.set(order)
    try:
        return around_conversion(original, serving, request, raw_request)
    finally:
        CURRENT.reset(token)


def around_arguments(original: Callable[..., None], message: dict[str, Any], *, strict: bool = True) -> None:
    """Keep arguments that are no JSON object as text."""
    original(message, strict=strict and repairing() is None)


def around_process(original: Callable[..., Any], serving: Any, request: Any, is_multimodal: bool, **options: Any) -> Any:
    """Give the template roles that it renders."""
    if repairing() is not None and request.input_ids is None and renders_by_template(serving):
        request.messages = for_template(request.messages, template_source(serving), serving.supports_inline_system)
        is_open = request._format_add_generation_prompt is None and not request.continue_final_message
        if is_open and request.messages and request.messages[-1].role == "assistant" and not request.messages[-1].prefix:
            request._format_add_generation_prompt = True
    return original(serving, request, is_multimodal, **options)


def renders_by_template(serving: Any) -> bool:
    """Models with an encoder of their own (DeepSeek V3.2, Kimi K3, Harmony, …) know the roles."""
    templates = serving.template_manager
    return serving.chat_encoding_spec is None and templates.python_chat_template is None and not serving.is_gpt_oss


def template_source(serving: Any) -> str:
    """The text of the model's templates."""
    source = getattr(serving.tokenizer_manager.tokenizer, "chat_template", None) or ""
    return source if isinstance(source, str) else "\n".join(source.values())


def for_template(messages: Sequence[Any], source: str, has_inline_system: bool) -> list[Any]:
    """`messages` in roles that a template of this `source` renders; the same objects where nothing has to change."""
    known = "developer" in source
    renamed = [
        message if known or message.role != "developer" else message.model_copy(update={"role": "system"}) for message in messages
    ]
    leading = [message for message in renamed if message.role == "system"]
    if has_inline_system or len(leading) < 2 or any(message.tools for message in leading):
        return renamed
    text = "\n\n".join(text for message in leading if (text := content_text(message.content)))
    merged = leading[0].model_copy(update={"content": text})
    return [merged, *(message for message in renamed if message.role != "system")]


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or parts of which a system message has text ones only."""
    if isinstance(content, list):
        return "\n".join(part.text for part in content if getattr(part, "text", None))
    return content or ""


def hooks() -> list[tuple[str, Callable[..., Any]]]:
    """Targets and hooks."""
    module = "sglang.srt.entrypoints.openai.serving_chat"
    return [
        (f"{module}.OpenAIServingChat._convert_to_internal_request", around_convert),
        (f"{module}.OpenAIServingChat._process_messages", around_process),
        (f"{module}.normalize_assistant_tool_call_arguments", around_arguments),
    ]
