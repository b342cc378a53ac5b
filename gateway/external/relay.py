"""Calls to a provider whose dialect is the agent's: Anthropic's Messages to Anthropic's form of it, relayed as they are.

litellm's own way there leaves fields out that it does not know, and needs its proxy's dependencies for streams.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx
import msgspec

from atdp.cookies import no_cookies
from gateway.errors import Refused
from gateway.external.catalog import ExternalModel
from gateway.external.errors import ProviderFailed

PROVIDER: Final = "anthropic"
_BASE: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"
_PASSED: Final = ("anthropic-version", "anthropic-beta")


class AnthropicRelay:
    """One client for all calls."""

    def __init__(self, timeout_s: float) -> None:
        timeout = httpx.Timeout(timeout_s, connect=10.0)
        self._client = httpx.AsyncClient(timeout=timeout, follow_redirects=False, cookies=no_cookies())

    async def ask(
        self, path: str, model: ExternalModel, name: str, body: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any] | AsyncIterator[bytes]:
        """The answer to ``body`` on ``path``; ``name`` is the model's there, of ``headers`` the dialect's own go along.

        Raises:
            ProviderFailed: with the provider's status.
        """
        sent = {"anthropic-version": _VERSION, "content-type": "application/json"}
        sent |= {header: headers[header] for header in _PASSED if header in headers}
        sent |= {"x-api-key": model.api_key} if model.api_key else {}
        url = (model.api_base or _BASE).rstrip("/").removesuffix("/v1") + path
        request = self._client.build_request("POST", url, content=msgspec.json.encode(body | {"model": name}), headers=sent)
        try:
            response = await self._client.send(request, stream=True)
            if response.status_code == httpx.codes.OK and body.get("stream"):
                return _stream(response)
            data = await response.aread()
        except httpx.HTTPError as error:
            raise ProviderFailed(_lost(error)) from error
        if response.status_code != httpx.codes.OK:
            raise ProviderFailed(_refused(response, data))
        answer: dict[str, Any] = msgspec.json.decode(data)
        return answer

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()


async def _stream(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in response.aiter_bytes():
            yield part
    except httpx.HTTPError as error:
        raise ProviderFailed(_lost(error)) from error
    finally:
        await response.aclose()


def _lost(error: httpx.HTTPError) -> Refused:
    if isinstance(error, httpx.TimeoutException):
        return Refused(504, "provider_timeout", "the provider took longer than the time limit; try again")
    return Refused(502, "provider_unreachable", f"the provider cannot be reached ({type(error).__name__}); try again")


def _refused(response: httpx.Response, data: bytes) -> Refused:
    try:
        error = msgspec.json.decode(data)["error"]
        message, code = str(error["message"]), str(error["type"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message, code = f"the provider answered {response.status_code}", "provider_error"
    wait = response.headers.get("retry-after", "")
    return Refused(response.status_code, code, message, retry_after_s=int(wait) if wait.isdigit() else None)
