"""What an address may ask of a page: fields that the page has, and in those that are closed lists one of their values.

Anything else is refused with what there is instead: a filter that is passed over unseen would show more than was asked for.
"""

from collections.abc import Collection, Iterable
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant

from dataproxy.console.plain import one_line
from dataproxy.errors import Refused

Choice = TypeVar("Choice", bound=str)
_EVERYWHERE = frozenset({"done"})
"""Fields of every page: what was done just before."""


class NotAChoice(Refused):
    """There is no such field, or no such value of it; ``choices`` are what there is."""

    def __init__(self, why: str, choices: Iterable[str]) -> None:
        super().__init__(why)
        self.choices = list(choices)


def chosen(name: str, given: str, choices: Collection[Choice]) -> Choice | None:
    """The one of ``choices`` that the field ``name`` gives; None where it gives nothing.

    Raises:
        NotAChoice: it gives something else.
    """
    value = given.strip()
    if not value:
        return None
    for one in choices:
        if one == value:
            return one
    raise NotAChoice(f"`{name}` takes one of the values below, or none; “{one_line(value, 60)}” is not among them.", choices)


def only_known(request: Request) -> None:
    """Let only fields pass that the page which is asked for declares, each once.

    Raises:
        NotAChoice: the address has another, or one of them twice.
    """
    known = _declared(request.scope["route"].dependant)
    for name, values in groupby(sorted(request.query_params.multi_items()), key=itemgetter(0)):
        given = [value for _, value in values]
        if len(given) > 1:
            raise NotAChoice(
                f"The address gives `{one_line(name, 60)}` more than once; leave one.", [one_line(v, 60) for v in given]
            )
        if name not in known | _EVERYWHERE:
            rest = "; those that it has stand below." if known else ", and no other."
            raise NotAChoice(f"This page has no field `{one_line(name, 60)}`{rest}", sorted(known))


def _declared(page: Dependant) -> frozenset[str]:
    """The fields of the page's function and of what that depends on."""
    own = {field.alias for field in page.query_params}
    return frozenset(own).union(*(_declared(one) for one in page.dependencies))
