"""Admission: whether a recorded sample may train, and why not. Default: no."""

from dataproxy.admit.decide import Decision, Sample, decide
from dataproxy.admit.policy import AdmissionPolicy

__all__ = ["AdmissionPolicy", "Decision", "Sample", "decide"]
