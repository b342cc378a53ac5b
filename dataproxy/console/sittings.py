"""Who sits at the console: one sitting a sign-in, in memory only, held to the key that it was opened with.

A sitting ends when its holder says so, when it is idle or old, when its key is revoked or expires, and when the data proxy stops.
"""

import hmac
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dataproxy.client.types import KeyInfo

IDLE_S, LONGEST_S = 1800, 8 * 3600
_MOST_SITTINGS = 1000
_TRIES, _TRIES_ALL, _PER_S = 5, 50, 60.0


@dataclass(slots=True)
class Sitting:
    """``csrf`` stands in every form; ``purpose`` on the record of every read. Times are UTC µs.

    ``pages``: addresses that were put on record, so that a page which asks again by itself is there once.
    """

    key_hash: str
    caller: KeyInfo
    purpose: str
    csrf: str
    begun_us: int
    seen_us: int
    pages: set[str] = field(default_factory=set)

    def accepts(self, token: str) -> bool:
        """Whether a form came from one of this sitting's pages."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))


class Sittings:
    """The open ones, by the secret in the browser's cookie. ``find_key`` gives the valid key of a hash."""

    def __init__(self, find_key: Callable[[str, int], KeyInfo | None], now_us: Callable[[], int]) -> None:
        self._find_key = find_key
        self._now_us = now_us
        self._open: OrderedDict[str, Sitting] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key_hash: str, caller: KeyInfo, purpose: str) -> str:
        """Open one; gives the cookie's secret."""
        name, now_us = secrets.token_urlsafe(32), self._now_us()
        with self._lock:
            self._open[name] = Sitting(key_hash, caller, purpose, secrets.token_urlsafe(32), now_us, now_us)
            while len(self._open) > _MOST_SITTINGS:
                self._open.popitem(last=False)
        return name

    def find(self, name: str) -> Sitting | None:
        """The sitting of a cookie, if it is open still; its key is looked up anew each time."""
        now_us = self._now_us()
        with self._lock:
            sitting = self._open.get(name)
            if sitting is None:
                return None
            caller = self._find_key(sitting.key_hash, now_us)
            idle_us, age_us = now_us - sitting.seen_us, now_us - sitting.begun_us
            if caller is None or idle_us > IDLE_S * 1_000_000 or age_us > LONGEST_S * 1_000_000:
                del self._open[name]
                return None
            sitting.caller, sitting.seen_us = caller, now_us
            return sitting

    def end(self, name: str) -> None:
        """Close one; the cookie opens nothing any more."""
        with self._lock:
            self._open.pop(name, None)


class Throttle:
    """Failed sign-ins: a few a minute from one address, and a bound over all of them."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._failed: deque[tuple[int, str]] = deque(maxlen=4096)
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> int:
        """Seconds until ``address`` may try again; 0: now."""
        since = self._now_us() - int(_PER_S * 1e6)
        with self._lock:
            recent = [(at, who) for at, who in self._failed if at > since]
            mine = [at for at, who in recent if who == address]
            over = [
                times[-limit] for times, limit in ((mine, _TRIES), ([at for at, _ in recent], _TRIES_ALL)) if len(times) >= limit
            ]
            return max((1 + (at - since) // 1_000_000 for at in over), default=0)

    def failed(self, address: str) -> None:
        """A try from ``address`` was not let in."""
        with self._lock:
            self._failed.append((self._now_us(), address))
