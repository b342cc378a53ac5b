"""Puts one gateway together: the hot route on raw ASGI in front, everything else on FastAPI behind it."""

from collections.abc import Callable

from fastapi import FastAPI

from dataproxy.keyfiles import KeyFiles
from gateway.answers import Receive, Scope, Send
from gateway.api import create_api
from gateway.chat import CHAT_PATH, ChatRoute
from gateway.exchange import ExchangeJournal
from gateway.keys import KeyTable
from gateway.sessions import SessionNamer
from gateway.settings import Settings
from gateway.state import Gateway
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.workers import Worker

_SESSION_PREFIX = "/s/"


def create_gateway(settings: Settings, journal: ExchangeJournal) -> Gateway:
    """The gateway's state.

    Raises:
        FileNotFoundError: a key file is missing: has the data proxy been set up? ValueError: an engine's URL is no base URL.
    """
    files = KeyFiles(settings.config_dir.expanduser())
    secret = files.tenant_secret()
    return Gateway(
        settings=settings,
        mac_secret=files.mac(),
        gateway_key=files.api_key("gateway"),
        journal=journal,
        keys=KeyTable(secret, settings.keys_wait_s),
        namer=SessionNamer(secret, settings.user_is_session),
        pool=Pool(settings.connect_timeout_s),
        workers=[Worker(url) for url in settings.engine_urls],
        origins={url: Origin.parse(url) for url in settings.engine_urls},
        dataproxy=Origin.unix(settings.data_dir.expanduser() / "run" / "dataproxy.sock"),
    )


class App:
    """The ASGI application."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._chat = ChatRoute(gateway)
        self._api: FastAPI = create_api(gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch by path; ``/s/<session>/…`` is the same path in that session."""
        if scope["type"] == "http":
            path: str = scope["path"]
            session = ""
            if path.startswith(_SESSION_PREFIX):
                session, _, rest = path[len(_SESSION_PREFIX) :].partition("/")
                path = f"/{rest}"
                scope = {**scope, "path": path}
            if path == CHAT_PATH:
                await self._chat(scope, receive, send, session)
                return
        await self._api(scope, receive, send)


def create_app(settings: Settings, open_journal: Callable[[], ExchangeJournal]) -> App:
    """The application over a journal that ``open_journal`` starts."""
    return App(create_gateway(settings, open_journal()))
