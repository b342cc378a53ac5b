"""Hyperscan tells, in one pass over a view, which rules can match at all. All others are not tried."""

from functools import lru_cache

import hyperscan

from dataproxy.redact.rules import Rule


class Prefilter:
    """Every rule's trigger in one Hyperscan database. Not for use from two threads at once: its scratch space is one."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._database = _compiled(tuple(rule.trigger for rule in rules))
        self._scratch = hyperscan.Scratch(self._database)

    def possible(self, data: bytes) -> list[Rule]:
        """The rules whose trigger occurs in ``data``."""
        seen: list[int] = []

        def note(rule: int, start: int, end: int, flags: int, context: object) -> None:
            seen.append(rule)

        self._database.scan(data, match_event_handler=note, scratch=self._scratch)
        return [self._rules[index] for index in sorted(set(seen))] if seen else []


@lru_cache(maxsize=64)
def _compiled(triggers: tuple[bytes, ...]) -> hyperscan.Database:
    """One database for every tenant with the same rules: compiling takes a second."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=list(triggers),
        ids=list(range(len(triggers))),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL] * len(triggers),
    )
    return database
