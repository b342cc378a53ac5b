"""The header by which a caller says that several sessions are attempts at one task: ``x-headrace-group: task-17`` or ``…; size=4``.

Owns its grammar. What a group is for: their rewards are compared with each other (``docs/training.md``).
"""

from typing import Final

import msgspec

from gateway.errors import Refused
from gateway.sessions import SessionNamer

HEADER: Final = b"x-headrace-group"
MAX_SIZE: Final = 1024


class Group(msgspec.Struct, frozen=True, gc=False):
    """``name`` is printable ASCII, "" for none; ``size`` is how many attempts there will be, 0 where the caller does not say."""

    name: str
    size: int


NO_GROUP: Final = Group("", 0)


def group_in(value: bytes, namer: SessionNamer) -> Group:
    """The group that the header's ``value`` names. One too long, or no ASCII, becomes a keyed digest, as a session's name does.

    Raises:
        Refused: 400, it names none, or the size is no number from 2 to 1,024.
    """
    name, _, parameter = value.decode("latin-1").partition(";")
    name, (key, _, size) = name.strip(), parameter.strip().partition("=")
    known = not parameter or (key.strip().lower() == "size" and size.strip().isdecimal() and len(size) < 8)
    num = int(size) if known and size else 0
    if not name or not known or (parameter and not 2 <= num <= MAX_SIZE):
        message = (
            f"x-headrace-group is `NAME` or `NAME; size=N`, N from 2 to {MAX_SIZE:,}: how many attempts at the task there will be"
        )
        raise Refused(400, "bad_group", message, param="x-headrace-group")
    return Group(namer.printable(name), num)
