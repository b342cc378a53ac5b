"""``GET /v1/models`` and ``/v1/models/{model}``: the engines' own list, cut down to what the key may use."""

from typing import Final

import msgspec

from gateway.errors import Refused, UpstreamError
from gateway.keys import Identity
from gateway.state import Gateway
from gateway.upstream.fetch import Request, fetch
from router.workers import Health

Card = dict[str, msgspec.Raw]

_NULL: Final = msgspec.Raw(b"null")
_ADAPTER: Final = b'"parent":"'
"""How an engine lists a LoRA adapter: here it is a version of the model, and no model that anybody asks for."""


class _ModelList(msgspec.Struct):
    data: list[Card]
    object: str = "list"


async def list_models(gateway: Gateway, identity: Identity) -> bytes:
    """The list as JSON: one engine's own bytes where one engine serves and the key may use everything.

    Raises:
        Refused: 503, no worker answers.
    """
    bodies = await _ask_workers(gateway)
    if not bodies:
        raise Refused(503, "no_worker", "no inference worker answers right now; try again shortly", retry_after_s=2)
    if len(bodies) == 1 and not identity.models and _ADAPTER not in bodies[0]:
        return bodies[0]
    cards: dict[str, Card] = {}
    for body in bodies:
        for card in msgspec.json.decode(body, type=_ModelList).data:
            if bytes(card.get("parent", _NULL)) == b"null":
                cards.setdefault(msgspec.json.decode(card["id"], type=str), card)
    return msgspec.json.encode(_ModelList([card for name, card in cards.items() if identity.may_use(name)]))


async def show_model(gateway: Gateway, identity: Identity, model: str) -> bytes:
    """One card of the list.

    Raises:
        Refused: 404, there is none of that name for this key; 503, no worker answers.
    """
    for card in msgspec.json.decode(await list_models(gateway, identity), type=_ModelList).data:
        if msgspec.json.decode(card["id"], type=str) == model:
            return msgspec.json.encode(card)
    message = f"the model `{model[:100]}` does not exist or your key may not use it; GET /v1/models lists yours"
    raise Refused(404, "model_not_found", message)


async def _ask_workers(gateway: Gateway) -> list[bytes]:
    bodies: list[bytes] = []
    for worker in gateway.workers:
        if worker.health is Health.DOWN:
            continue
        try:
            answer = await fetch(
                gateway.pool, gateway.origins[worker.url], Request("GET", "/v1/models", []), gateway.settings.control_timeout_s
            )
        except UpstreamError:
            continue  # the poller notices and logs it
        if answer.status == 200:
            bodies.append(answer.body)
    return bodies
