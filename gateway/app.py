"""Puts one gateway together: the hot routes on raw ASGI in front, everything else on FastAPI behind them."""

from collections.abc import Callable

from fastapi import FastAPI

from dataproxy.keyfiles import KeyFiles
from gateway.admission import Admission, Board, QueueBounds
from gateway.answers import Receive, Scope, Send
from gateway.api import create_api
from gateway.calls import CallRoute
from gateway.dialects import BY_PATH
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
    data_dir = settings.data_dir.expanduser()
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
        dataproxy=Origin.unix(data_dir / "run" / "dataproxy.sock"),
        admission=Admission(Board(data_dir / "gateway"), queue_bounds(settings)),
    )


def queue_bounds(settings: Settings) -> QueueBounds:
    """The bounds of the fair queue out of the settings."""
    return QueueBounds(
        settings.max_waiting,
        settings.max_waiting_per_key,
        settings.max_wait_s,
        settings.max_swap_wait_s,
        settings.tenant_max_concurrency,
    )


class App:
    """The ASGI application."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._calls = CallRoute(gateway)
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
            if dialect := BY_PATH.get(path):
                await self._calls(dialect, scope, receive, send, session)
                return
        await self._api(scope, receive, send)


def create_app(settings: Settings, open_journal: Callable[[], ExchangeJournal]) -> App:
    """The application over a journal that ``open_journal`` starts."""
    return App(create_gateway(settings, open_journal()))
