"""The admission policy: what a tenant's samples must fulfil. Its version stands in every decision."""

import hashlib
from dataclasses import asdict, dataclass

import msgspec


@dataclass(slots=True, frozen=True)
class AdmissionPolicy:
    """``max_altered``: share of a sample's ids that redaction may have overwritten.

    ``allow_truncated``: answers that were cut by length train.
    """

    max_altered: float = 0.15
    allow_truncated: bool = True

    @property
    def version(self) -> str:
        """Changes whenever a setting does."""
        settings = msgspec.json.encode(asdict(self), order="deterministic")
        return f"admit-1-{hashlib.sha256(settings).hexdigest()[:8]}"
