"""A client that calls in the name of many sends nobody the cookie that another got."""

import httpx

from atdp.cookies import no_cookies


def cookies_sent(**how: object) -> list[str | None]:
    """What a client shows a server that sets a cookie with each answer, on two calls."""
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("cookie"))
        return httpx.Response(200, headers={"set-cookie": "session=of-another; Path=/"})

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(answer), **how) as client:  # type: ignore[arg-type]
        client.get("/")
        client.get("/")
    return seen


def test_no_cookie_is_kept() -> None:
    assert cookies_sent() == [None, "session=of-another"]  # what a client does by itself
    assert cookies_sent(cookies=no_cookies()) == [None, None]
