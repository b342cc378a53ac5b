"""Hyperscan tells, in one pass over a view, which rules can match at all. All others are not tried."""

import hyperscan

from dataproxy.redact.rules import Rule


class Prefilter:
    """One Hyperscan database of every rule's trigger. Not for use from two threads at once: its scratch space is one."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[rule.trigger for rule in rules],
            ids=list(range(len(rules))),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL] * len(rules),
        )

    def possible(self, data: bytes) -> list[Rule]:
        """The rules whose trigger occurs in ``data``."""
        seen: list[int] = []

        def note(rule: int, start: int, end: int, flags: int, context: object) -> None:
            seen.append(rule)

        self._database.scan(data, match_event_handler=note)
        return [self._rules[index] for index in sorted(set(seen))]
