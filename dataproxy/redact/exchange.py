"""What goes into redaction and what comes out: one exchange, that is a request, its answer and their exact tokens.

Made by the drain, read by admission and the store. The redacted form never holds a value, only spans and surrogates.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from atdp.events import Span

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Ids: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.uint8]


class Detection(NamedTuple):
    """One personal value inside a text: characters [start, end) of it. ``canonical`` is a keyed digest of the value.

    Of two that overlap that of the higher ``rank`` names the kind.
    """

    kind: str
    detector: str
    score: float
    start: int
    end: int
    canonical: bytes
    rank: int = 0


@dataclass(slots=True, frozen=True)
class Exchange:
    """One call in the clear.

    ``request`` and ``response`` are JSON values; ``prompt_ids`` [P] and each of ``output_ids`` [N_i] are int32, one array for
    each choice; ``strings`` are texts that belong to the call but to neither body (path, user agent, session id). ``surrogates``
    stand in the place of values already.
    """

    request: Json
    response: Json
    prompt_ids: Ids | None = None
    output_ids: list[Ids] = field(default_factory=list)
    strings: dict[str, str] = field(default_factory=dict)
    surrogates: frozenset[str] = frozenset()


@dataclass(slots=True, frozen=True)
class RedactedExchange:
    """The same call without its personal values; every shape as in the `Exchange` it was made from.

    ``prompt_altered`` [P] and ``output_altered`` [N_i] are uint8, 1 where an id was overwritten. Span paths are JSON pointers
    below ``/request``, ``/response`` and ``/strings``; a key that was redacted is named by its redacted form. ``version`` names the
    rules and the tenant's policy; ``never_trains``: it held a kind that the policy drops.
    """

    request: Json
    response: Json
    prompt_ids: Ids | None
    output_ids: list[Ids]
    strings: dict[str, str]
    spans: list[Span]
    prompt_altered: Flags | None
    output_altered: list[Flags]
    version: str = ""
    never_trains: bool = False


@dataclass(slots=True, frozen=True)
class RedactedText:
    """A text without its personal values; spans are characters of ``text``, their path is empty."""

    text: str
    spans: list[Span]
