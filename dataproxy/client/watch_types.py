"""Alarms, and rewards by version as charts and comparisons need them. Made by the API, read by people. Times are UTC µs."""

import msgspec

from atdp.samples import BatchManifest


class Alarm(msgspec.Struct, frozen=True):
    """A rule and what came of it. ``firing`` once ``value`` is beyond ``threshold``; ``value`` None: there is too little to say.

    ``rule`` states the threshold in words, ``detail`` what was found and since when, ``todo`` what to do about it ("": nothing is).
    """

    name: str
    firing: bool
    value: float | None
    threshold: float
    rule: str
    detail: str
    todo: str = ""


class VersionOutcome(msgspec.Struct, frozen=True):
    """What trajectories earned whose last token ``version`` sampled: ``num`` are rewarded, the newest ``looked_at`` looked at.

    ``mean`` and ``deviation`` (of the sample) are of their effective rewards; ``success`` is the share above ``SUCCESS_ABOVE``.
    """

    version: str
    num: int
    looked_at: int
    mean: float
    deviation: float
    success: float

    def error(self) -> float:
        """The standard error of the mean."""
        return float(self.deviation / max(self.looked_at, 1) ** 0.5)


SUCCESS_ABOVE = 0.5
"""A trajectory with an effective reward above this counts as a success: half-way of 0 to 1, and above half of −1 to 1."""


class VersionState(msgspec.Struct, frozen=True):
    """``version`` came to be in ``state``, by the word of the key ``key_id``."""

    version: str
    state: str
    changed_us: int
    key_id: str


class RebuiltRow(msgspec.Struct, frozen=True):
    """One trajectory of a batch: the reward that was ``used``, as ``seen`` again in the rewards of that time, and as it is ``now``.

    ``tenant`` is "" where no version learned from it, or where it is not the asker's to see.
    """

    tenant: str
    trajectory_id: str
    used: float | None
    seen: float | None
    now: float | None


class RebuiltBatch(msgspec.Struct, frozen=True):
    """A batch rebuilt: of ``known`` rows that can be looked up, ``agree`` have the reward that was used. ``more`` are not shown."""

    manifest: BatchManifest
    rows: list[RebuiltRow]
    known: int
    agree: int
    more: int = 0
