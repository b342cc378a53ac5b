"""Admission: whether a recorded sample may train, and why not. Default: no."""

from dataproxy.admit.decide import EXTERNAL, INTERNAL_CALL, REASONS, VAULT_ONLY, Decision, Sample, decide
from dataproxy.admit.policy import AdmissionPolicy

__all__ = ["EXTERNAL", "INTERNAL_CALL", "REASONS", "VAULT_ONLY", "AdmissionPolicy", "Decision", "Sample", "decide"]
