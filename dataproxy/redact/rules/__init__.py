"""Every rule of the pattern lane. A change to any of them changes `VERSION`, so that cached detections are made anew."""

from dataproxy.redact.rules import contact, crypto, identity, payment, phone, provider_keys, secrets
from dataproxy.redact.rules.rule import Hit, Rule

VERSION = "pattern-2"
RULES: tuple[Rule, ...] = (
    secrets.RULES + provider_keys.RULES + payment.RULES + crypto.RULES + identity.RULES + contact.RULES + phone.RULES
)

__all__ = ["RULES", "VERSION", "Hit", "Rule"]
