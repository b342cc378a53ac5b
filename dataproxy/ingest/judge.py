"""Judges posted events one by one: whose they are, whether they keep the protocol, whether such an event may be posted at all."""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from atdp.codec import event_of
from atdp.errors import InvalidEvent
from atdp.events import Event
from atdp.ingest import MAX_EVENT_BYTES, Receipt

_OWN_KINDS: Final = {
    "reward": "rewards go to POST /v1/feedback, which finds their target",
    **dict.fromkeys(("access", "erasure", "decision"), "events of this kind are written by the data proxy alone"),
}
_MINTED: Final = re.compile(r"[0-9a-f]{32}")
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(slots=True, frozen=True)
class Sender:
    """Who sends: a key's tenant and agent ("" for one that may speak for any), the batch's session, the boundary it came over."""

    tenant: str
    agent: str
    key_id: str
    session: str = ""
    boundary: str = "api"


class Unacceptable(Exception):
    """The event is refused; ``receipt`` says why."""

    def __init__(self, event_id: str, field: str, reason: str) -> None:
        super().__init__(reason)
        self.receipt = Receipt(event_id, "refused", field, reason)


def judge(raw: bytes | msgspec.Raw, sender: Sender) -> Event:
    """The event in ``raw``, with what the sender left out filled in.

    Raises:
        Unacceptable: it breaks the protocol, is another's, or is none that may be posted.
    """
    if len(bytes(raw)) > MAX_EVENT_BYTES:
        raise Unacceptable("", "", f"an event may have {MAX_EVENT_BYTES} bytes; this one has {len(bytes(raw))}")
    try:
        body = _object.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unacceptable("", "", f"an event must be a JSON object: {error}") from error
    return judge_body(body, sender)


def judge_body(body: dict[str, Any], sender: Sender) -> Event:
    """The same for an event that is parsed already."""
    given_id = body.get("event_id")
    event_id = given_id if isinstance(given_id, str) else ""
    filled = {"tenant": sender.tenant, "agent": sender.agent, "session_id": sender.session, **body}
    given_boundary = filled.get("boundary", sender.boundary)
    filled["boundary"] = sender.boundary
    try:
        event = event_of(filled)
        if given_boundary != sender.boundary:
            event.m.setdefault("given_boundary", given_boundary)
        _check(event, sender)
    except InvalidEvent as error:
        raise Unacceptable(event_id, error.field, str(error)) from error
    return event


def _check(event: Event, sender: Sender) -> None:
    if sender.tenant and event.tenant != sender.tenant:
        raise InvalidEvent("tenant: not this key's", "tenant")
    if not event.tenant:
        raise InvalidEvent("tenant: an operator's key must say whose event this is", "tenant")
    if sender.agent and event.agent != sender.agent:
        raise InvalidEvent("agent: not this key's", "agent")
    if event.kind in _OWN_KINDS:
        raise InvalidEvent(f"kind: {_OWN_KINDS[event.kind]}", "kind")
    if _MINTED.fullmatch(event.event_id):
        message = "event_id: 32 hex digits are the gateway's own ids; send a UUID with its dashes, or a name of your own"
        raise InvalidEvent(message, "event_id")
    for name in ("event_id", "session_id", "trajectory_id", "parent_id", "agent"):
        if not (getattr(event, name) or "").isprintable():
            raise InvalidEvent(f"{name}: must be printable", name)
    if "tokens" in event.a:
        raise InvalidEvent("a.tokens: exact tokens come from the engine alone, at the gateway", "a.tokens")
