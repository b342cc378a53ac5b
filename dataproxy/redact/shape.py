"""A rule out of one example that nobody caught: its letters as they are, its digits as any, so that no value stands in a policy."""

import re

from dataproxy.redact.errors import InvalidPolicy

_LEAST_DIGITS = 3
_RUN = re.compile(r"[0-9]+|[^0-9]+")


def pattern_of(value: str) -> str:
    """A pattern of the shape of ``value``, as Hyperscan takes it.

    Raises:
        InvalidPolicy: it has too few digits: its pattern would be the value itself.
    """
    if sum(character.isdigit() for character in value) < _LEAST_DIGITS:
        raise InvalidPolicy("a rule cannot be made of this value without holding it; give a `pattern` instead, as in EMP-[0-9]{5}")
    return "".join(f"[0-9]{{{len(run)}}}" if run.isdigit() else re.escape(run) for run in _RUN.findall(value))
