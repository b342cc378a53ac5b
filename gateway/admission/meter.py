"""The meter of one key with limits: requests and tokens a minute, calls at once, and a budget, on the board.

A rate is a token bucket (level, when): it holds a minute's worth and may run into debt, because what a call uses is known at its
end only. A call is charged an estimate from its size when it comes, and the difference when it leaves. The budget counts what the
data proxy has confirmed plus what the gateways have seen since: each rise of the confirmed sum takes as much off the latter.
"""

import math
import time
from collections.abc import Callable

from gateway.admission.board import CONFIRMED, PENDING, REQUESTS, TOKENS, Board
from gateway.errors import Refused
from gateway.keys import KeyLimits
from gateway.upstream.connection import Headers

_MINUTE_S = 60.0


class Meter:
    """The counts under ``name`` (a key's, or a tenant's). ``clock`` gives wall-clock seconds, which processes share."""

    def __init__(self, board: Board, name: str, limits: KeyLimits, clock: Callable[[], float] = time.time) -> None:
        self.limits = limits
        self._board = board
        self._clock = clock
        self._slot = board.slot(name)
        self._cell = board.cell(self._slot)

    @property
    def full(self) -> bool:
        """Whether the key runs as many calls as it may; ask under the board's lock."""
        most = self.limits.max_concurrency
        return most is not None and self._board.total(self._slot) >= most

    def start(self) -> None:
        """One more call runs."""
        self._board.ints[self._cell] += 1

    def stop(self) -> None:
        """One call less runs."""
        self._board.ints[self._cell] -= 1

    def charge(self, estimate: int) -> None:
        """Take one request and ``estimate`` tokens, or nothing; call it under the board's lock.

        Raises:
            Refused: 429; what is exceeded, and when to come back.
        """
        limits = self.limits
        if limits.budget_tokens is not None and self._used() >= limits.budget_tokens:
            message = f"this key has used its budget of {limits.budget_tokens} tokens; `headrace keys limit` raises it"
            raise Refused(429, "insufficient_quota", message)
        if limits.requests_per_minute is not None:
            self._require(REQUESTS, limits.requests_per_minute, 1, "requests")
        if limits.tokens_per_minute is not None:
            self._require(TOKENS, limits.tokens_per_minute, estimate, "tokens")
            self._board.floats[self._slot + TOKENS] -= estimate
        if limits.requests_per_minute is not None:
            self._board.floats[self._slot + REQUESTS] -= 1
        if limits.budget_tokens is not None:
            self._board.ints[self._slot + PENDING] += estimate

    def settle(self, estimate: int, num_tokens: int, *, served: bool = True) -> None:
        """Correct the charge to what was used; one that was not ``served`` gets its request back. Call it under the lock."""
        board, slot = self._board, self._slot
        if self.limits.tokens_per_minute is not None:
            board.floats[slot + TOKENS] += estimate - num_tokens
        if self.limits.requests_per_minute is not None and not served:
            board.floats[slot + REQUESTS] += 1
        if self.limits.budget_tokens is not None:
            board.ints[slot + PENDING] = max(0, board.ints[slot + PENDING] + num_tokens - estimate)

    def headers(self) -> Headers:
        """``x-ratelimit-*`` as OpenAI has them, for the rates that this key has."""
        found: Headers = []
        rates = ((REQUESTS, self.limits.requests_per_minute, b"requests"), (TOKENS, self.limits.tokens_per_minute, b"tokens"))
        for unit, per_minute, name in rates:
            if per_minute is not None:
                level = self._board.floats[self._slot + unit]
                reset_s = max(0.0, per_minute - level) * _MINUTE_S / per_minute
                found.append((b"x-ratelimit-limit-" + name, b"%d" % per_minute))
                found.append((b"x-ratelimit-remaining-" + name, b"%d" % max(0, int(level))))
                found.append((b"x-ratelimit-reset-" + name, b"%.3fs" % reset_s))
        return found

    def _require(self, unit: int, per_minute: int, wanted: int, what: str) -> None:
        """Fill the bucket up to now. A call larger than a minute's worth needs a full bucket, else it could never come."""
        floats, at, now = self._board.floats, self._slot + unit, self._clock()
        before = floats[at + 1]
        gained = (now - before) * per_minute / _MINUTE_S if before else per_minute
        floats[at], floats[at + 1] = min(per_minute, floats[at] + max(0.0, gained)), now
        missing = min(wanted, per_minute) - floats[at]
        if missing > 1e-6:
            wait_s = math.ceil(missing * _MINUTE_S / per_minute)
            message = f"this key may use {per_minute} {what} a minute; try again in {wait_s} s"
            raise Refused(429, "rate_limit_exceeded", message, retry_after_s=max(1, wait_s))

    def _used(self) -> int:
        ints, slot, used = self._board.ints, self._slot, self.limits.used_tokens
        if (rise := used - ints[slot + CONFIRMED]) > 0:
            ints[slot + PENDING] = max(0, ints[slot + PENDING] - rise)
            ints[slot + CONFIRMED] = used
        return max(used, ints[slot + CONFIRMED]) + ints[slot + PENDING]
