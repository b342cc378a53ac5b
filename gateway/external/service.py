"""Serves one call of an agent: finds the model, asks its provider, and puts id, name, price and record on the answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec

from gateway.dialects import MESSAGES, RESPONSES, Dialect
from gateway.errors import Refused
from gateway.external import provider, streams
from gateway.external.catalog import Catalog, ExternalModel
from gateway.external.errors import ProviderFailed
from gateway.external.record import Recorder
from gateway.external.relay import PROVIDER, AnthropicRelay
from gateway.external.stored import StoredIds
from gateway.external.usage import read_usage

_STREAMS: Final[Mapping[str, Callable[[AsyncIterator[Any], streams.Served], AsyncIterator[bytes]]]] = {
    "chat": streams.chunks,
    "completions": streams.chunks,
    "responses": streams.items,
    "messages": streams.blocks,
}


class Service:
    """The models of ``catalog``; ``timeout_s`` limits each call to a provider."""

    def __init__(self, catalog: Catalog, timeout_s: float) -> None:
        self._catalog = catalog
        for model in catalog.values():
            provider.introduce(model)
        self._timeout_s = timeout_s
        self._stored = StoredIds()
        self._relay = AnthropicRelay(timeout_s)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._relay.close()

    async def answer(
        self, dialect: Dialect, body: dict[str, Any], headers: Mapping[str, str], rid: str
    ) -> bytes | AsyncIterator[bytes]:
        """A whole answer's JSON, or the bytes of a stream.

        Raises:
            Refused: there is no such model. ProviderFailed: its provider says no.
        """
        model = self._model(body)
        wanted = headers.get("x-headrace-record") == "1" and dialect.generates
        served = streams.Served(
            rid=rid,
            name=model.name,
            recorder=Recorder(rid, model.name, provider.VERSION, wanted),
            cost=lambda usage: provider.cost_usd(model, usage),
            keep=lambda theirs: self._stored.keep(rid, model.name, theirs),
            wants_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )
        answer = await self._ask(dialect, model, self._continued(dialect, model, body), headers)
        if not isinstance(answer, dict):
            return _STREAMS[dialect.name](answer, served)
        if not dialect.generates:
            return msgspec.json.encode(answer | ({"model": model.name} if "model" in answer else {}))
        if dialect is RESPONSES:
            served.keep(str(answer.get("id", "")))
        return served.recorder.into_json(msgspec.json.encode(served.named(answer)), served.record(read_usage(answer.get("usage"))))

    async def stored(self, action: str, rid: str) -> bytes:
        """``retrieve``, ``cancel`` or ``delete`` the response ``rid`` where its provider keeps it.

        Raises:
            Refused: nothing is known of it. ProviderFailed: its provider says no.
        """
        found = self._stored.find(rid)
        if found is None or not provider.stores_responses(self._catalog[found[0]]):
            raise Refused(404, "response_not_found", f"Response with id '{rid}' not found.", param="response_id")
        model = self._catalog[found[0]]
        answer = await provider.ask_stored(action, model, found[1], self._timeout_s)
        return msgspec.json.encode(answer | {"id": rid} | ({"model": model.name} if "model" in answer else {}))

    def _model(self, body: dict[str, Any]) -> ExternalModel:
        model = self._catalog.get(str(body.get("model")))
        if model is None:
            raise Refused(404, "model_not_found", "no such external model; GET /v1/models lists them", param="model")
        return model

    async def _ask(
        self, dialect: Dialect, model: ExternalModel, body: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any] | AsyncIterator[Any]:
        name, inner = provider.provider_of(model)
        if dialect.form is MESSAGES.form and name == PROVIDER:
            return await self._relay.ask(dialect.path, model, inner, body, headers)
        if dialect.name == "count_tokens":
            raise ProviderFailed(Refused(404, "not_supported", f"the provider of {model.name} does not count tokens"))
        async with asyncio.timeout(self._timeout_s):
            return await provider.ask(dialect.name, model, body, self._timeout_s)

    def _continued(self, dialect: Dialect, model: ExternalModel, body: dict[str, Any]) -> dict[str, Any]:
        """``body`` with the provider's id of the response that it continues."""
        previous = body.get("previous_response_id") if dialect is RESPONSES else None
        if previous is None:
            return body
        if not provider.stores_responses(model):
            message = f"the provider of {model.name} stores no responses; send all items in `input` instead"
            raise Refused(400, "unsupported_parameter", message, param="previous_response_id")
        found = self._stored.find(str(previous))
        if found is None or found[0] != model.name:
            message = f"Previous response with id '{previous}' not found."
            raise Refused(404, "previous_response_not_found", message, param="previous_response_id")
        return body | {"previous_response_id": found[1]}
