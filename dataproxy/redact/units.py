"""Cuts an exchange into the units that an agent resends as they are: each message, the tools, the answer, the rest of the request.

A unit is looked at once; what was found in it is remembered under a keyed digest (`UnitMemory`). Not owned: what is found.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from atdp.events import Span
from dataproxy.redact.detector import Detector, merge
from dataproxy.redact.exchange import Detection, Exchange, Json
from dataproxy.redact.leaves import Leaf, Replace, leaves, rebuild
from dataproxy.redact.recent import Recent

_REMEMBERED = 20_000
_REMEMBERED_REBUILT = 5_000
_encoder = msgspec.json.Encoder()

Found: TypeAlias = tuple[tuple[int, tuple[Detection, ...]], ...]
"""What was found, by number of the leaf."""
Rebuilt: TypeAlias = tuple[list[Json], tuple[Span, ...]]
"""A unit's values without what was found in them, and where surrogates stand in them now."""


@dataclass(slots=True)
class Unit:
    """One part of an exchange. ``roots`` are (pointer, value, the key it stands under); ``data`` is the part as JSON, ``key`` a
    keyed digest of that, both empty where a text is no Unicode.

    ``leaves`` is None as long as nobody had to look into the unit: nothing is in it. ``found`` is by leaf.
    """

    roots: list[tuple[str, Json, str]]
    data: bytes
    key: bytes = b""
    leaves: list[Leaf] | None = None
    found: dict[int, list[Detection]] = field(default_factory=dict)

    def open(self) -> list[Leaf]:
        """The unit's leaves."""
        if self.leaves is None:
            self.leaves = [leaf for pointer, value, key in self.roots for leaf in leaves(value, pointer, key)]
        return self.leaves

    def add(self, leaf: int, detection: Detection) -> None:
        """Note one more value in a leaf."""
        self.found.setdefault(leaf, []).append(detection)

    def rebuilt(self, replace: Replace) -> list[Json]:
        """The values of ``roots`` with every leaf replaced."""
        return [rebuild(value, pointer, replace, key) for pointer, value, key in self.roots]


@dataclass(slots=True, frozen=True)
class Parts:
    """The units of an exchange in the order in which values are numbered: messages, then the answer, then the rest.

    So the next turn, which resends messages and answer, numbers alike.
    """

    messages: list[Unit]
    prompt: Unit | None
    response: Unit
    rest: Unit
    tools: Unit | None
    strings: Unit

    def __iter__(self) -> Iterator[Unit]:
        yield from self.messages
        yield from (unit for unit in (self.prompt, self.response, self.rest, self.tools, self.strings) if unit is not None)

    def request(self, request: Json, rebuilt: Callable[[Unit], list[Json]]) -> Json:
        """The request put together from its units' values."""
        if not isinstance(request, dict) or not isinstance(rest := rebuilt(self.rest)[0], dict):
            return rebuilt(self.rest)[0]
        others = iter(rest.items())
        whole: dict[str, Json] = {}
        for key in request:
            if key == "messages" and self.messages:
                whole[key] = [rebuilt(unit)[0] for unit in self.messages]
            elif (unit := {"prompt": self.prompt, "tools": self.tools}.get(key)) is not None:
                whole[key] = rebuilt(unit)[0]
            else:
                name, value = next(others)
                whole[name] = value
        return whole


def parts(exchange: Exchange) -> Parts:
    """The units of ``exchange``."""
    request, messages, own = exchange.request, [], {}
    if isinstance(request, dict):
        listed = request.get("messages")
        if isinstance(listed, list):
            messages = [_unit(f"/request/messages/{n}", message, "messages") for n, message in enumerate(listed)]
        own = {key: _unit(f"/request/{key}", request[key], key) for key in ("prompt", "tools") if key in request}
        request = {key: value for key, value in request.items() if key not in own and not (key == "messages" and messages)}
    strings = [(f"/strings/{name}", text, "") for name, text in exchange.strings.items()]
    return Parts(
        messages,
        own.get("prompt"),
        _unit("/response", exchange.response),
        _unit("/request", request),
        own.get("tools"),
        Unit(list(strings), _json(list(exchange.strings.values()))),
    )


class UnitMemory:
    """What units held, by keyed digest: offsets and digests of what was found, and the unit without it. Never a value."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._seen: Recent[Found] = Recent(_REMEMBERED)
        self._spread: Recent[Found] = Recent(_REMEMBERED)
        self._rebuilt: Recent[Rebuilt] = Recent(_REMEMBERED_REBUILT)

    def look(self, unit: Unit, detect: Callable[[Leaf], tuple[Detection, ...]]) -> None:
        """Fill ``unit.found``, by ``detect`` on its leaves where the unit is not known.

        Raises:
            RedactionFailed: ``detect`` does.
        """
        if unit.data:
            unit.key = self._detector.digest(b"unit\0%b\0%b" % (unit.roots[0][2].encode() if unit.roots else b"", unit.data))
        known = self._seen.get(unit.key) if unit.key else None
        if known is None:
            hits = [(n, leaf, detect(leaf)) for n, leaf in enumerate(unit.open())]
            known = tuple((n, found) for n, leaf, found in hits if found or (leaf.form == "number" and _is_hidden(leaf, unit.data)))
            if unit.key:
                self._seen.put(unit.key, known)
                unit.leaves = unit.leaves if known else None
        if known:
            unit.open()
            unit.found = {n: list(found) for n, found in known}

    def spread(self, unit: Unit, values: bytes, search: Callable[[Unit], None]) -> None:
        """Add to ``unit.found`` the places of the values whose digest is ``values``, by ``search`` where that is not known yet."""
        known = self._spread.get((values, unit.key)) if unit.key else None
        if known is None:
            search(unit)
            known = tuple((n, merge(found)) for n, found in sorted(unit.found.items())) if unit.found else ()
            if unit.key:
                self._spread.put((values, unit.key), known)
        if known:
            unit.open()
            unit.found = {n: list(found) for n, found in known}

    def rebuild(self, unit: Unit, values: bytes, names: list[str], make: Callable[[Unit], Rebuilt]) -> Rebuilt:
        """The unit without its values, by ``make`` where it was not made before with the same values and surrogates."""
        key = (values, unit.key, *names, *(pointer for pointer, _, _ in unit.roots))
        known = self._rebuilt.get(key) if unit.key else None
        if known is None:
            known = make(unit)
            if unit.key:
                self._rebuilt.put(key, known)
        return known


def encode(text: str) -> bytes:
    """The bytes that ``text`` is in a unit's ``data``."""
    return _json(text)[1:-1]


def _unit(pointer: str, value: Json, key: str = "") -> Unit:
    return Unit([(pointer, value, key)], _json(value))


def _json(value: object) -> bytes:
    """JSON without spaces, or nothing where a text is no Unicode: such a unit is looked at every time."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return b""


def _is_hidden(number: Leaf, data: bytes) -> bool:
    """Whether a number is not in the unit's JSON as it is read: it has another spelling there."""
    return number.text.encode() not in data
