"""Cookies, for whoever calls another server in the name of many: none is kept, so that nobody is sent another's."""

from http.cookiejar import CookieJar, DefaultCookiePolicy


def no_cookies() -> CookieJar:
    """A jar for an HTTP client that takes nothing in. A client of httpx has one that does, whether it was asked for or not."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))
