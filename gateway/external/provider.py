"""Asks providers through litellm: each dialect by litellm's own call for it, answers as plain JSON, errors as one kind.

Owns what litellm is told and what its exceptions mean. Not owned: ids, records, and the form of what the agent gets.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import httpx
import litellm
from litellm.anthropic_interface import messages as anthropic_messages
from litellm.constants import openai_compatible_providers
from litellm.exceptions import ModelNotMappedError, Timeout
from litellm.responses.main import acancel_responses, adelete_responses, aget_responses
from litellm.types.utils import LlmProviders
from litellm.utils import ProviderConfigManager
from openai import APIError

from gateway.errors import Refused
from gateway.external import fields
from gateway.external.catalog import ExternalModel
from gateway.external.errors import ProviderFailed
from gateway.external.usage import Usage

litellm.suppress_debug_info = True
litellm.disable_hf_tokenizer_download = True
litellm.telemetry = False
litellm.use_chat_completions_url_for_anthropic_messages = True  # many servers of OpenAI's form have no Responses API

VERSION: Final = version("litellm")
_NO_KEY: Final = "none"
_OPENAI_FORM: Final = frozenset((*openai_compatible_providers, "openai", "custom_openai", "text-completion-openai", "azure"))
_TIMED_OUT: Final = 504
_unpriced: Final[set[str]] = set()
"""Models that litellm knows from us alone, which is no price."""
_WRAPPING: Final = re.compile(r"^(?:litellm\.)?(?:\w+(?:Error|Exception)(?::| -) ?)+")


@dataclass(slots=True, frozen=True)
class _Call:
    """litellm's function for a dialect, and the fields that pass by name."""

    function: Callable[..., Awaitable[Any]]
    known: frozenset[str]


_CALLS: Final = {
    "chat": _Call(litellm.acompletion, fields.CHAT),
    "completions": _Call(litellm.atext_completion, fields.COMPLETIONS),
    "responses": _Call(litellm.aresponses, fields.RESPONSES),
    "messages": _Call(anthropic_messages.acreate, fields.MESSAGES),
    "embeddings": _Call(litellm.aembedding, fields.EMBEDDINGS),
}

_STORED: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "retrieve": aget_responses,
    "cancel": acancel_responses,
    "delete": adelete_responses,
}

Answer = dict[str, Any] | AsyncIterator[Any]
"""A whole answer, or a stream of events: JSON objects, or bytes of server-sent events."""


def provider_of(model: ExternalModel) -> tuple[str, str]:
    """(provider, the model's name there).

    Raises:
        ProviderFailed: litellm knows no such provider.
    """
    try:
        name, provider, _, _ = litellm.get_llm_provider(model.litellm_model, api_base=model.api_base)
    except APIError as error:
        raise ProviderFailed(refused_by(error)) from error
    return str(provider), str(name)


def introduce(model: ExternalModel) -> None:
    """Tell litellm of a model that it has no entry for: it would ask for a whole answer and pretend to stream that."""
    try:
        litellm.get_model_info(model.litellm_model)
    except ModelNotMappedError:
        provider, _ = provider_of(model)
        entry = {"litellm_provider": provider, "mode": "chat", "supports_native_streaming": True}
        litellm.register_model({model.litellm_model: entry})
        _unpriced.add(model.litellm_model)


def stores_responses(model: ExternalModel) -> bool:
    """Whether the provider has a Responses API of its own; else litellm speaks chat to it and nothing is stored."""
    provider, name = provider_of(model)
    known = LlmProviders(provider)
    return ProviderConfigManager.get_provider_responses_api_config(provider=known, model=name) is not None


async def ask(dialect: str, model: ExternalModel, body: dict[str, Any], timeout_s: float) -> Answer:
    """The provider's answer to an agent's ``body`` in ``dialect``.

    Raises:
        ProviderFailed: with the provider's status, or 400 for a field that this provider cannot be given.
    """
    call = _CALLS[dialect]
    named, rest = fields.split(body, call.known)
    # One try: the agent's SDK has its own, and a second one here would be paid for unseen.
    arguments: dict[str, Any] = {"model": model.litellm_model, "timeout": timeout_s, "max_retries": 0, "num_retries": 0}
    arguments |= {"api_key": model.api_key or (_NO_KEY if model.api_base else None), "api_base": model.api_base}
    if rest:
        if provider_of(model)[0] not in _OPENAI_FORM:
            names = ", ".join(sorted(rest))
            raise ProviderFailed(
                Refused(400, "unknown_field", f"the provider of {model.name} does not take: {names}", param=min(rest))
            )
        arguments["extra_body"] = rest
    streams = bool(body.get("stream")) and dialect != "embeddings"
    if streams:
        arguments["stream"] = True
        arguments |= {"stream_options": {"include_usage": True}} if dialect in ("chat", "completions") else {}
    try:
        answer = await call.function(**named, **arguments)
    except APIError as error:
        raise ProviderFailed(refused_by(error)) from error
    return _stream(answer) if streams else plain(answer)


async def ask_stored(action: str, model: ExternalModel, response_id: str, timeout_s: float) -> dict[str, Any]:
    """``retrieve``, ``cancel`` or ``delete`` a response that a provider keeps; ``response_id`` as litellm calls it.

    Raises:
        ProviderFailed: with the provider's status.
    """
    key = model.api_key or (_NO_KEY if model.api_base else None)
    where = {"api_base": model.api_base, "api_key": key, "custom_llm_provider": provider_of(model)[0], "timeout": timeout_s}
    try:
        answer: dict[str, Any] = plain(await _STORED[action](response_id=response_id, **where))
    except APIError as error:
        raise ProviderFailed(refused_by(error)) from error
    return answer


def plain(value: Any) -> Any:
    """litellm's object as JSON; absent fields stay absent."""
    if isinstance(value, dict | bytes):
        return value
    return value.model_dump(mode="json", exclude_none=True, warnings=False)


async def _stream(chunks: Any) -> AsyncIterator[Any]:
    try:
        if not hasattr(chunks, "aclose"):
            async for chunk in chunks:
                yield plain(chunk)
            return
        async with aclosing(chunks):
            async for chunk in chunks:
                yield plain(chunk)
    except APIError as error:
        raise ProviderFailed(refused_by(error)) from error
    except httpx.HTTPError as error:
        message = f"the connection to the provider broke ({type(error).__name__}); try again"
        raise ProviderFailed(Refused(502, "provider_lost", message)) from error


def cost_usd(model: ExternalModel, usage: Usage) -> float | None:
    """What ``usage`` costs in US dollars: by the catalog's price, else by litellm's; None where neither knows it."""
    price = model.price
    if price.input is not None or price.output is not None:
        return usage.prompt * (price.input or 0) + usage.completion * (price.output or 0)
    if model.litellm_model in _unpriced:
        return None
    try:
        costs = litellm.cost_per_token(
            model=model.litellm_model,
            prompt_tokens=usage.prompt,
            completion_tokens=usage.completion,
            cache_read_input_tokens=usage.cache_read,
            cache_creation_input_tokens=usage.cache_write,
        )
    except ModelNotMappedError:
        return None
    return float(sum(costs))


def refused_by(error: APIError) -> Refused:
    """What a provider's error means for the agent: its status, its words, and when to come again."""
    status = getattr(error, "status_code", None) or 502
    if isinstance(error, Timeout):
        status = _TIMED_OUT
    message, code, param = _said(error)
    return Refused(status, code, message, param=param, retry_after_s=_retry_after(error))


def _said(error: APIError) -> tuple[str, str, str | None]:
    """(message, code, param) in the provider's own words; litellm wraps them in its own and puts its class in front."""
    body = error.body if isinstance(error.body, dict) else {}
    if "message" not in body:
        text = _WRAPPING.sub("", error.message)
        inner = _first_object(text)
        body = inner.get("error", inner) if inner is not None else {"message": text}
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        return error.message, "provider_error", None
    code, param = body.get("code") or body.get("type"), body.get("param")
    return body["message"], str(code or "provider_error"), param if isinstance(param, str) else None


def _first_object(text: str) -> dict[str, Any] | None:
    """The JSON object inside ``text``; litellm quotes a provider's body with words before and behind."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _retry_after(error: APIError) -> int | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "litellm_response_headers", None) or {}
    value = headers.get("retry-after")
    return int(value) if isinstance(value, str) and value.isdigit() else None
