"""Reads on record: who, what and why, committed before a byte of what was read is returned.

A handler puts on record what it reads, and whose that is. ``OnRecord`` stands before every answer and sees to the rest.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Header
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dataproxy.client.types import KeyInfo
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.access import What, gathered, record_access

Handler = TypeVar("Handler", bound=Callable[..., Any])
UNRECORDED: dict[Callable[..., Any], str] = {}
"""Handlers whose answers leave no trace, and why not; docs/audit.md says the same of their routes."""
_MOST_CHARACTERS = 500


class Owned(Protocol):
    """A row that is some tenant's."""

    @property
    def tenant(self) -> str:
        """Whose."""


@dataclass(slots=True, frozen=True)
class Reader:
    """Who asks, and why; ``pages`` are the addresses that were put on record since they sat down."""

    caller: KeyInfo
    purpose: str
    pages: set[str] = field(default_factory=set)


def purpose_of(header: str) -> str:
    """Why somebody reads, as a request says it.

    Raises:
        Refused: it is too long.
    """
    purpose = unquote(header)
    if len(purpose) > _MOST_CHARACTERS:
        raise Refused(f"a purpose has at most {_MOST_CHARACTERS} characters")
    return purpose


def _purpose(x_headrace_purpose: str = Header("")) -> str:
    return purpose_of(x_headrace_purpose)


Purpose = Annotated[str, Depends(_purpose)]
"""Why somebody reads, percent-encoded in a header of the request; it is redacted and kept."""


def unrecorded(why: str) -> Callable[[Handler], Handler]:
    """A handler of which no answer is put on record, for it shows nothing that was said or done, nor who is governed how."""

    def marked(handler: Handler) -> Handler:
        UNRECORDED[handler] = why
        return handler

    return marked


def put_on_record(
    services: Services, caller: KeyInfo, owners: Iterable[str], what: What, target: str = "", purpose: str = ""
) -> None:
    """``caller`` is about to read ``what`` named ``target`` of each of ``owners``; free text is redacted first.

    Raises:
        RedactionFailed: the purpose or the target cannot be redacted for certain.
    """
    texts = {owner: [_redacted(services, owner, text) for text in (target, purpose)] for owner in sorted(set(owners))}
    with services.database.write() as connection:
        for owner, (named, why) in texts.items():
            record_access(connection, caller, owner, what, named, services.now_us(), why)


def put_list_on_record(services: Services, caller: KeyInfo, rows: Sequence[Owned], what: What, purpose: str) -> None:
    """The same of each owner of ``rows``, all that there are; where there are none, ``caller`` has looked at its own tenant."""
    put_on_record(services, caller, {row.tenant for row in rows} or {caller.tenant}, what, "", purpose)


class OnRecord:
    """Lets no answer to a key's GET begin before a read is on record: what its handler put there, or else its address.

    Whatever stops the record stops the answer. What a page asks again by itself (htmx says so) is there once a sitting.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        with gathered() as reads:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] < 300 and not reads:
                    await self._record_address(scope)
                await send(message)

            await self._app(scope, receive, answer)

    async def _record_address(self, scope: Scope) -> None:
        reader: Reader | None = scope.get("reader")
        if reader is None or scope.get("endpoint") in UNRECORDED:
            return  # what is shown without a key is nobody's
        path, caller = scope["path"], reader.caller
        by_itself = any(name == b"hx-request" for name, _ in scope["headers"])
        if not (by_itself and path in reader.pages):
            await run_in_threadpool(put_on_record, self._services, caller, [caller.tenant], "page", path, reader.purpose)
            reader.pages.add(path)


def _redacted(services: Services, owner: str, text: str) -> str:
    return services.redactors.of(owner).redact_text(text).text if text else ""
