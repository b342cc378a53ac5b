"""A browser without a screen for tests that need none: an HTTP client that keeps cookies and sends forms as pages would."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx

from dataproxy.services import Services
from tests.dataproxy.api.served import serve

PURPOSE = "a review of the shop's agents"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Browser:
    """One person's; ``page`` is the last page's text."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.page = ""
        self.answer: httpx.Response | None = None

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page under /console."""
        return self._take(self.client.get(f"/console{path}", headers=headers))

    def post(self, path: str, csrf: str | None = None, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
        """Send a form of the page at hand."""
        found = _CSRF.search(self.page)
        token = csrf if csrf is not None else found.group(1) if found else ""
        return self._take(self.client.post(f"/console{path}", data={"csrf": token, **fields}, headers=headers or {}))

    def sign_in(self, key: str, purpose: str = PURPOSE) -> httpx.Response:
        """As a person would."""
        self.get("/sign-in")
        return self.post("/sign-in", key=key, purpose=purpose)

    @property
    def text(self) -> str:
        """What the page says, without tags."""
        return unescape(re.sub(r"<[^>]*>", "", self.page))

    def _take(self, answer: httpx.Response) -> httpx.Response:
        self.answer = answer
        if answer.headers.get("content-type", "").startswith("text/html"):
            self.page = answer.text
        return answer


@contextmanager
def browsing(services: Services, directory: Path, **headers: str) -> Iterator[Browser]:
    """A browser on the data proxy's own socket."""
    transport = httpx.HTTPTransport(uds=str(directory))
    with httpx.Client(
        transport=transport, base_url="http://console.test", follow_redirects=True, headers=headers, timeout=60
    ) as client:
        yield Browser(client)


@contextmanager
def served(services: Services, directory: Path) -> Iterator[Path]:
    """The socket."""
    with serve(services, directory / "console.sock") as path:
        yield path
