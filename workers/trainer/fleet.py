"""The workers as whoever publishes versions sees them: which there are, what they may serve, which are out of rotation.

Owns the calls to the gateway, which keeps the register, and a stand-in for engines without a gateway. Not owned: swaps (`engines`),
the rule by which a worker comes back (`keeper`). Place in the path: step 3, publish → swap → the router learns of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import httpx
import msgspec

from workers.inference.client.tls import trust
from workers.trainer.errors import FleetUnknown

Lane = Literal["stable", "canary"]

TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.5
_FOR_NOW: Final = (401, 503)
"""A gateway that has just started may not know a new key yet."""
_REASON_CHARACTERS: Final = 1000
"""The gateway takes no longer reason; one may hold what torch or an engine said."""


class Out(msgspec.Struct, frozen=True):
    """Why a worker is out of rotation; with `until_restart` for as long as it is the `instance` that it was."""

    reason: str
    until_restart: bool = False
    instance: str = ""


class Seat(msgspec.Struct, frozen=True):
    """A worker in the fleet. `id` is the gateway's name for it; `health` is ready, waiting or down.

    `proven`: the start of it (its instance) whose weights were compared with the record; no other start gets calls.
    """

    id: str
    url: str
    lane: Lane = "stable"
    kind: str = "sglang"
    health: str = "ready"
    out: Out | None = None
    proven: str = ""


class View(msgspec.Struct, frozen=True):
    """Every engine of ours, whatever its lane and health; what the lanes serve, and the canary's share."""

    seats: list[Seat]
    versions: dict[Lane, list[str]] = {}
    canary_per_mille: int = 0

    def of_lane(self, lane: Lane) -> list[Seat]:
        """The workers of one lane."""
        return [seat for seat in self.seats if seat.lane == lane]


class Fleet(Protocol):
    """Every method may raise FleetUnknown."""

    def view(self) -> View:
        """How it is now."""
        ...

    def serve(self, versions: Mapping[Lane, Sequence[str]]) -> None:
        """Say which versions a lane serves: a worker that holds another gets no calls."""
        ...

    def share(self, canary_per_mille: int) -> None:
        """The share of sessions that the canary lane serves."""
        ...

    def move(self, seat: Seat, lane: Lane) -> None:
        """Put a worker into a lane."""
        ...

    def prove(self, seat: Seat, instance: str) -> None:
        """This start of a worker has the weights on record of what it says it holds."""
        ...

    def take_out(self, seat: Seat, out: Out) -> None:
        """No calls for a worker from now on."""
        ...

    def take_back(self, seat: Seat) -> None:
        """Calls for it again."""
        ...


class FixedFleet:
    """Engines by URL with no gateway to tell: what is said of them holds in this process only, and all are in one lane."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._seats = {url: Seat(url, url) for url in urls}
        self._versions: dict[Lane, list[str]] = {}
        self._canary_per_mille = 0

    def view(self) -> View:
        """As Fleet."""
        return View(list(self._seats.values()), dict(self._versions), self._canary_per_mille)

    def serve(self, versions: Mapping[Lane, Sequence[str]]) -> None:
        """As Fleet; nobody routes by it."""
        self._versions.update({lane: list(served) for lane, served in versions.items()})

    def share(self, canary_per_mille: int) -> None:
        """As Fleet; nobody routes by it."""
        self._canary_per_mille = canary_per_mille

    def move(self, seat: Seat, lane: Lane) -> None:
        """As Fleet."""
        self._seats[seat.url] = msgspec.structs.replace(self._seats[seat.url], lane=lane)

    def prove(self, seat: Seat, instance: str) -> None:
        """As Fleet; nobody routes by it."""
        self._seats[seat.url] = msgspec.structs.replace(self._seats[seat.url], proven=instance)

    def take_out(self, seat: Seat, out: Out) -> None:
        """As Fleet."""
        self._seats[seat.url] = msgspec.structs.replace(self._seats[seat.url], out=out)

    def take_back(self, seat: Seat) -> None:
        """As Fleet."""
        self._seats[seat.url] = msgspec.structs.replace(self._seats[seat.url], out=None)


class _Workers(msgspec.Struct):
    workers: list[Seat]
    canary_per_mille: int
    versions: dict[Lane, list[str]]


class GatewayFleet:
    """The workers of the gateway at `url`, with the key of a trainer or operator that belongs to no tenant.

    A gateway that does not answer, or has no keys yet, is asked again for `patience_s`.
    """

    def __init__(self, url: str, key: str, patience_s: float = PATIENCE_S) -> None:
        self._url, self._patience_s = url, patience_s
        self._headers = {"authorization": f"Bearer {key}"}

    def view(self) -> View:
        """As Fleet."""
        answer = self._ask("GET", "/v1/workers")
        try:
            found = msgspec.json.decode(answer, type=_Workers)
        except msgspec.DecodeError as error:
            raise FleetUnknown(f"{self._url} does not list workers: {error}") from error
        return View([seat for seat in found.workers if seat.kind == "sglang"], found.versions, found.canary_per_mille)

    def serve(self, versions: Mapping[Lane, Sequence[str]]) -> None:
        """As Fleet."""
        self._ask("PUT", "/v1/lanes", {"versions": versions})

    def share(self, canary_per_mille: int) -> None:
        """As Fleet."""
        self._ask("PUT", "/v1/lanes", {"canary_per_mille": canary_per_mille})

    def move(self, seat: Seat, lane: Lane) -> None:
        """As Fleet."""
        self._ask("PUT", f"/v1/workers/{seat.id}/lane", {"lane": lane})

    def prove(self, seat: Seat, instance: str) -> None:
        """As Fleet."""
        self._ask("PUT", f"/v1/workers/{seat.id}/proof", {"instance": instance})

    def take_out(self, seat: Seat, out: Out) -> None:
        """As Fleet."""
        short = msgspec.structs.replace(out, reason=out.reason[:_REASON_CHARACTERS])
        self._ask("PUT", f"/v1/workers/{seat.id}/out", msgspec.to_builtins(short))

    def take_back(self, seat: Seat) -> None:
        """As Fleet."""
        self._ask("DELETE", f"/v1/workers/{seat.id}/out")

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._url, headers=self._headers, timeout=TIMEOUT_S, trust_env=False, verify=trust())

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        waited_s, problem = 0.0, ""
        while True:
            try:
                with self._client() as client:
                    response = client.request(method, path, content=content)
                if response.status_code < 400:
                    return response.content
                problem = f"{response.status_code} {response.text[:300]}"
                if response.status_code not in _FOR_NOW:
                    break
            except httpx.TransportError as error:
                problem = f"no answer ({error!r})"
            if waited_s >= self._patience_s:
                break
            time.sleep(_POLL_S)
            waited_s += _POLL_S
        raise FleetUnknown(f"{method} {path} of the gateway at {self._url}: {problem}")
