"""Policy versions: names that sort, their state, and what each descends from."""

from typing import Literal

import msgspec

from atdp.errors import InvalidVersion

VersionState = Literal["published", "serving", "canary", "retired", "failed"]


class PolicyVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """One set of weights. Made by the trainer's publisher, kept in the store, read by everybody.

    ``state``: published (directory complete, not serving), serving (swapped in and verified), canary (serves a share of sessions
    beside the one that serves), retired (served earlier), failed (a swap to it failed). ``checksum`` is the engine's checksum of
    its fused parameters.
    """

    version: str
    parent: str | None
    state: VersionState
    created_us: int
    directory: str
    checksum: str | None = None
    batch_id: str | None = None
    metrics: dict[str, float] = {}


def version_name(index: int) -> str:
    """``7`` → ``"v000007"``."""
    return f"v{index:06d}"


def version_index(name: str) -> int:
    """``"v000007"`` → ``7``.

    Raises:
        InvalidVersion: the name has another form.
    """
    if len(name) < 7 or name[0] != "v" or not name[1:].isdigit():
        raise InvalidVersion(f"{name!r} is not a policy version; expected a name such as v000007")
    return int(name[1:])
