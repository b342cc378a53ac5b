"""The process of external models inside the test's own, in front of scripted providers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from gateway.external.app import Api
from gateway.external.catalog import Catalog, ExternalModel, Price
from tests.fakes.providers import Providers
from tests.fakes.serving import serve

RID = "chatcmpl-" + "0" * 48


@dataclass
class External:
    """``client`` speaks to the process as the gateway does; ``providers.seen`` is what came through."""

    client: httpx.AsyncClient
    providers: Providers

    async def post(self, path: str, body: dict[str, object], record: bool = True, rid: str = RID, **headers: str) -> httpx.Response:
        """One call, recorded or not."""
        asked = {"x-headrace-rid": rid} | ({"x-headrace-record": "1"} if record else {}) | headers
        return await self.client.post(path, json=body, headers=asked)


def catalog(url: str) -> Catalog:
    """Models of both scripted providers; some have a price of their own, some litellm's, some none."""
    priced = Price(1e-6, 2e-6)
    models = [
        ExternalModel("judge", "openai/gpt-4o-mini", f"{url}/v1", "key-openai", Price()),
        ExternalModel("claude", "anthropic/claude-sonnet-4-5", url, "key-anthropic", Price()),
        ExternalModel("priced", "openai/unheard-of", f"{url}/v1", None, priced),
        ExternalModel("unpriced", "openai/unheard-of", f"{url}/v1", None, Price()),
        *(ExternalModel(f"openai-{status}", f"openai/fail-{status}", f"{url}/v1", "k", Price()) for status in (400, 401, 429, 500)),
        *(ExternalModel(f"openai-{how}", f"openai/{how}", f"{url}/v1", "k", Price()) for how in ("silent", "cut", "overloaded")),
        *(ExternalModel(f"anthropic-{how}", f"anthropic/{how}", url, "k", Price()) for how in ("silent", "cut", "overloaded")),
        *(ExternalModel(f"anthropic-{status}", f"anthropic/fail-{status}", url, "k", Price()) for status in (400, 401, 429, 500)),
    ]
    return {model.name: model for model in models}


@pytest.fixture
async def external() -> AsyncIterator[External]:
    """It, on a port of its own."""
    providers = Providers()
    async with (
        serve(providers, lifespan="off") as url,
        serve(Api(catalog(url), 30.0, 8).app()) as served,
        httpx.AsyncClient(base_url=served, timeout=30, trust_env=False) as client,
    ):
        yield External(client, providers)
