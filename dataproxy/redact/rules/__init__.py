"""Every rule of the pattern lane. A change to any of them changes `VERSION`, so that cached detections are made anew."""

from dataproxy.redact.rules import contact, payment, phone, secrets
from dataproxy.redact.rules.rule import Hit, Rule

VERSION = "pattern-1"
RULES: tuple[Rule, ...] = secrets.RULES + payment.RULES + contact.RULES + phone.RULES

__all__ = ["RULES", "VERSION", "Hit", "Rule"]
