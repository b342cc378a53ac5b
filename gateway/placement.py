"""Which worker holds a stored answer: the id bears its mark, so every gateway process finds it and none keeps a table.

The mark takes the last 8 hex digits of the event id; what is left of a UUIDv7 still tells apart 2^42 ids a millisecond. An answer
that another worker had to give in the end (the first one did not begin) is remembered here, for this process only.
"""

from hashlib import blake2b

from atdp.ids import verify_completion_id
from gateway.errors import Refused
from gateway.state import Gateway
from router.workers import Worker

_MARK_HEX = 8
_MAX_MOVED = 10_000


def mark(event_id: str, url: str) -> str:
    """``event_id`` with the mark of the worker at ``url``."""
    return event_id[:-_MARK_HEX] + _mark(url)


def holder(gateway: Gateway, tenant: str, response_id: str) -> Worker:
    """The worker that holds ``response_id`` of ``tenant``.

    Raises:
        Refused: 404 as the engine would say it: forged, another tenant's, or its worker is gone.
    """
    event_id = verify_completion_id(gateway.mac_secret, tenant, response_id)
    if event_id is not None:
        moved = gateway.moved.get(event_id)
        for worker in gateway.workers:
            if worker.url == moved or (moved is None and event_id.endswith(_mark(worker.url))):
                return worker
    raise Refused(404, "response_not_found", f"Response with id '{response_id[:100]}' not found.", param="response_id")


def note_moved(gateway: Gateway, event_id: str, url: str) -> None:
    """``event_id`` bears another worker's mark than the one at ``url``, which holds its answer."""
    if event_id.endswith(_mark(url)):
        return
    gateway.moved[event_id] = url
    if len(gateway.moved) > _MAX_MOVED:
        del gateway.moved[next(iter(gateway.moved))]


def _mark(url: str) -> str:
    return blake2b(url.encode(), digest_size=_MARK_HEX // 2).hexdigest()
