"""What one tenant says about redaction: rules of its own, values that may stay, names by a model, what a kind means for training.

Made by whoever sets it, kept by the store under a number, read by the redactor. Exact values that may stay are keyed digests in it.
"""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from dataproxy.redact.errors import InvalidPolicy

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,31}")
_MOST_RULES = 100
_LONGEST_PATTERN = 500
NAME_KINDS = ("PERSON", "PLACE", "ORG")
"""Kinds that the model for names finds."""

Action = Literal["mask", "drop"]
"""mask: taken out of text and tokens. drop: that too, and an exchange that held one is recorded for audit and never trains."""


class TenantRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the tenant's own: ``pattern`` is a regular expression that Hyperscan takes; it matches within one line."""

    name: str
    pattern: str
    kind: str
    validator: Literal["none", "luhn"] = "none"


class RedactionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``allow`` holds exact values that are nobody's, ``allow_patterns`` expressions of such; ``names`` are kinds of `NAME_KINDS`.

    ``actions`` is by kind; what is not named is masked. ``pseudonymize``: models see surrogates, and agents get their values back.
    In the store ``allow`` is empty and ``allow_digests`` stands for it.
    """

    rules: tuple[TenantRule, ...] = ()
    allow: tuple[str, ...] = ()
    allow_digests: tuple[str, ...] = ()
    allow_patterns: tuple[str, ...] = ()
    names: tuple[Literal["PERSON", "PLACE", "ORG"], ...] = ()
    actions: dict[str, Action] = {}
    pseudonymize: bool = False

    @property
    def dropped(self) -> frozenset[str]:
        """The kinds whose exchanges never train."""
        return frozenset(kind for kind, action in self.actions.items() if action == "drop")


def read_policy(data: bytes | dict[str, Any]) -> RedactionPolicy:
    """The policy in JSON text or in the JSON value of it.

    Raises:
        InvalidPolicy: it is none; the message says which field and what may stand there.
    """
    try:
        if isinstance(data, bytes):
            return msgspec.json.decode(data, type=RedactionPolicy)
        return msgspec.convert(data, RedactionPolicy)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InvalidPolicy(f"this is no redaction policy: {error}") from error


def sealed(policy: RedactionPolicy, digest: Callable[[str], str]) -> RedactionPolicy:
    """The policy as it is kept: exact values only as digests, those of before included."""
    digests = {*policy.allow_digests, *map(digest, policy.allow)}
    return msgspec.structs.replace(policy, allow=(), allow_digests=tuple(sorted(digests)))


def check_names(policy: RedactionPolicy) -> None:
    """Check what can be said without compiling anything.

    Raises:
        InvalidPolicy: a name or a kind is none, one is there twice, or there are too many.
    """
    if len(policy.rules) > _MOST_RULES:
        raise InvalidPolicy(f"there are {len(policy.rules)} rules; at most {_MOST_RULES} are taken")
    for rule in policy.rules:
        if not _NAME.fullmatch(rule.name):
            raise InvalidPolicy(f"rule {rule.name!r}: a name is of a-z, 0-9, - and _, at most 40 of them")
        if len(rule.pattern) > _LONGEST_PATTERN:
            raise InvalidPolicy(f"rule {rule.name!r}: a pattern has at most {_LONGEST_PATTERN} characters")
    for kind in (*(rule.kind for rule in policy.rules), *policy.actions):
        if not _KIND.fullmatch(kind):
            raise InvalidPolicy(f"kind {kind!r}: a kind is of A-Z, 0-9 and _, as in EMPLOYEE_ID")
    names = [rule.name for rule in policy.rules]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidPolicy(f"rule {min(twice)!r} is there twice")
