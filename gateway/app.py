"""Puts one gateway together: the hot routes at the HTTP protocol in front, everything else on FastAPI behind them."""

from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from dataproxy.keyfiles import KeyFiles
from gateway.admission import Admission, Board, QueueBounds
from gateway.answers import Receive, Scope, Send
from gateway.api import create_api
from gateway.edge.protocol import AgentConnection
from gateway.exchange import ExchangeJournal
from gateway.keys import KeyTable
from gateway.sessions import SessionNamer
from gateway.settings import Settings
from gateway.state import Gateway
from gateway.upstream.limits import Limits
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from router.choose import Routing
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
        workers=[Worker(url, kind="external" if url in settings.external_urls else "sglang") for url in settings.engine_urls],
        origins={url: Origin.parse(url) for url in settings.engine_urls},
        dataproxy=Origin.unix(data_dir / "run" / "dataproxy.sock"),
        admission=Admission(Board(data_dir / "gateway"), queue_bounds(settings)),
        routing=Routing(settings.routing, settings.canary_per_mille),
        limits=Limits(settings.first_byte_timeout_s, settings.idle_timeout_s, settings.total_timeout_s),
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
    """The ASGI application: every route but the hot ones, which ``http_protocol`` takes before it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._api: FastAPI = create_api(gateway)

    @property
    def http_protocol(self) -> Callable[..., AgentConnection]:
        """What uvicorn must be given as ``http``."""
        return partial(AgentConnection, self.gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """``/s/<session>/…`` is the same path in that session."""
        if scope["type"] == "http" and scope["path"].startswith(_SESSION_PREFIX):
            session, _, rest = scope["path"][len(_SESSION_PREFIX) :].partition("/")
            scope = {**scope, "path": f"/{rest}", "session": session}
        await self._api(scope, receive, send)


def create_app(settings: Settings, open_journal: Callable[[], ExchangeJournal]) -> App:
    """The application over a journal that ``open_journal`` starts."""
    return App(create_gateway(settings, open_journal()))
