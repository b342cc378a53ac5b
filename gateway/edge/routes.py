"""Which requests are hot: the dialect that a URL names, and the session in ``/s/<session>/…``."""

from urllib.parse import unquote

import httptools

from gateway.dialects import BY_PATH, Dialect

SESSION_PREFIX = b"/s/"
_ROUTES = {path.encode(): (dialect, "") for path, dialect in BY_PATH.items()}


def route(url: bytes) -> tuple[Dialect, str] | None:
    """(dialect, session or empty) of the request target ``url``; None where the path is no hot one."""
    return _ROUTES.get(url) or _route_rare(url)


def _route_rare(url: bytes) -> tuple[Dialect, str] | None:
    path = url.partition(b"?")[0] if url.startswith(b"/") else httptools.parse_url(url).path or b""
    session = b""
    if path.startswith(SESSION_PREFIX):
        session, _, rest = path[len(SESSION_PREFIX) :].partition(b"/")
        path = b"/" + rest
    found = _ROUTES.get(path)
    return found and (found[0], unquote(session.decode("latin-1")))
