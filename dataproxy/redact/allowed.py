"""Values that a tenant lets stand: its own support address, numbers of examples. Exact ones are known by keyed digest only."""

from collections.abc import Callable

from dataproxy.redact.policy import RedactionPolicy
from dataproxy.redact.rules.tenant import Matcher


class Allowed:
    """What may stay."""

    def __init__(self, policy: RedactionPolicy, digest: Callable[[bytes], bytes]) -> None:
        """``digest`` is under the tenant's key.

        Raises:
            InvalidPolicy: a pattern is refused.
        """
        self._digest = digest
        self._digests = frozenset(policy.allow_digests) | {allow_digest(value, digest) for value in policy.allow}
        self._patterns = [Matcher(f"allow_patterns {pattern}", pattern) for pattern in policy.allow_patterns]

    def __bool__(self) -> bool:
        return bool(self._digests or self._patterns)

    def __contains__(self, text: str) -> bool:
        if self._digests and allow_digest(text, self._digest) in self._digests:
            return True
        return any(pattern.whole(text) for pattern in self._patterns)


def allow_digest(value: str, digest: Callable[[bytes], bytes]) -> str:
    """What an exact value is known by; upper and lower case are one, and so is space around it."""
    return digest(b"allow\0" + value.strip().casefold().encode("utf-8", "surrogatepass")).hex()
