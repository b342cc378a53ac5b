"""What a first start leaves on record: consent to record, and one agent key.

Both are made once and found again later; the key is shown when it is made and never again.
"""

from dataclasses import dataclass

from dataproxy.client import DataProxyClient
from dataproxy.client.types import Consent, NewKey

_REASON = "the operator started Headrace with `headrace up`"


@dataclass(slots=True, frozen=True)
class FirstRun:
    """``key`` is the new agent key, None if there was one already; ``consent`` is what holds for the whole tenant."""

    key: str | None
    consent: Consent


async def ensure_first_run(client: DataProxyClient, tenant: str, train_consent: bool, make_key: bool) -> FirstRun:
    """Put consent to record on record unless the tenant has one, to train if ``train_consent``; make the first agent key."""
    rows = [row for row in await client.list_consent() if row.tenant == tenant and not row.agent]
    consent = rows[-1] if rows else None
    if consent is None or (train_consent and not consent.training):
        reason = f"{_REASON} --train-consent" if train_consent else _REASON
        consent = await client.set_consent(Consent(tenant=tenant, recording=True, training=train_consent, reason=reason))
    key = None
    if make_key and not any(row.role == "agent" and row.tenant == tenant for row in await client.list_keys()):
        key = (await client.create_key(NewKey(tenant=tenant, agent="default", role="agent"))).key
    return FirstRun(key, consent)
