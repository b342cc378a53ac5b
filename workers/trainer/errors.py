"""Errors of the trainer.

TrainerError
├── LeaseLost           the lease ran out or is unknown: its trajectories may already be with somebody else
├── Superseded          another version began to serve while this one was being made (a rollback)
├── SwapFailed          the engines did not take a version; the old one serves
├── VersionUnavailable  a version directory is missing, half written, damaged or already collected
├── PublishLockBusy     somebody else publishes
├── FleetUnknown        the gateway does not say which workers there are, or does not take what it is told of them
├── CanaryRefused       there is no canary to be had: too few workers, another one runs, or the version serves already
├── NonFiniteStep       the gradient norm is not a number, or infinite
├── WrongModel          the weights do not fit the model
├── EvaluationFailed    a version's held-out score could not be taken
└── MissingExtra        something is asked for that is not installed
"""

from __future__ import annotations


class TrainerError(Exception):
    """Root of what can fail in the trainer."""


class LeaseLost(TrainerError):
    """The lease is gone; what was computed from it must not be published."""


class Superseded(TrainerError):
    """The new version's parent no longer serves; the new version must not either."""


class SwapFailed(TrainerError):
    """No engine, or not every engine, took the version."""


class VersionUnavailable(TrainerError):
    """There is no complete directory for the version."""


class PublishLockBusy(TrainerError):
    """Another publisher held the lock for too long."""


class FleetUnknown(TrainerError):
    """The gateway did not answer, or refused, a question about its workers."""


class CanaryRefused(TrainerError):
    """A canary cannot begin as things are; the message says what to do."""


class NonFiniteStep(TrainerError):
    """The step would have destroyed the weights; it was not taken."""


class WrongModel(TrainerError):
    """Names or shapes of the weights differ from the model's."""


class EvaluationFailed(TrainerError):
    """The evaluation ended badly or gave no number."""


class MissingExtra(TrainerError):
    """An optional dependency is not there."""
