"""Whose rows a transaction may touch: one tenant's, everybody's, or none. PostgreSQL enforces it (``dataproxy.store.postgres``).

A request starts as NOBODY and is bound to its caller's tenant by ``dataproxy.api.identity``, so that a question that forgets its
tenant finds nothing of another's. Outside of requests (the drain, start-up, expiry) it is the operator who works: EVERYBODY.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Scope:
    """``tenant`` None: nobody's rows; ``everybody`` beats it."""

    tenant: str | None
    everybody: bool = False


NOBODY = Scope(None)
EVERYBODY = Scope(None, everybody=True)

_current: ContextVar[Scope] = ContextVar("headrace_scope", default=EVERYBODY)


def current_scope() -> Scope:
    """That of the request at hand, or EVERYBODY where there is none."""
    return _current.get()


def bind(scope: Scope) -> None:
    """From now on, in this request, ``scope`` holds."""
    _current.set(scope)


@contextmanager
def scoped(scope: Scope) -> Iterator[None]:
    """``scope`` holds until the block ends, and within it what ``bind`` says."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
