"""The learner: what a rank holds in memory (weights, optimizer, and the version they are), and how it gets there.

Owns restoring a version and the state that goes with it, at start, after a rollback and after a step that came to nothing.
Not owned: the step itself (`step`), files (`version_directory`, `checkpoint`).
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from workers.trainer.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from workers.trainer.paths import TrainerPaths
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.selection import Head, head_of
from workers.trainer.settings import Settings
from workers.trainer.step import make_optimizer
from workers.trainer.version_directory import BASE_VERSION, WEIGHTS, TrainerState, lineage, verify

logger = logging.getLogger(__name__)


class Learner:
    """One rank's. `version` is the head: the version whose weights are in memory; `state` came with it."""

    def __init__(self, settings: Settings, paths: TrainerPaths, ranks: Ranks) -> None:
        self._settings = settings
        self._paths = paths
        self._ranks = ranks
        base = paths.versions / BASE_VERSION
        self.policy = Policy(base, ranks, settings.compute_dtype, settings.train_layers, settings.checkpoint_activations)
        self.reference = Policy(base, ranks, settings.compute_dtype) if settings.kl_coef > 0 else None
        self.optimizer = make_optimizer(self.policy, settings.learning_rate, settings.weight_decay)
        self.version = BASE_VERSION
        self.state = TrainerState()

    def head(self) -> Head:
        """The head with its ancestors, as far as they are kept."""
        return head_of(lineage(self._paths.versions, self.version))

    def restore(self, version: str) -> None:
        """Hold `version`. Collective.

        With its own checkpoint: masters and optimizer exactly as they were. Without: masters from its published weights, the
        optimizer from the nearest ancestor's checkpoint, else empty, and then warm-up begins anew.
        Raises: VersionUnavailable.
        """
        manifest = verify(self._paths.versions / version)
        state = manifest.state
        saved = checkpoints(self._paths.checkpoints)
        if version in saved:
            load_checkpoint(self._paths.checkpoints, version, self.policy, self.optimizer, with_weights=True)
            logger.info("resumed %s from its checkpoint", version)
        else:
            self.policy.load(self._paths.versions / version / WEIGHTS)
            line = [ancestor.version for ancestor in lineage(self._paths.versions, version)]
            nearest = next((name for name in line if name in saved), None)
            if nearest is not None:
                load_checkpoint(self._paths.checkpoints, nearest, self.policy, self.optimizer, with_weights=False)
            else:
                self.optimizer.state.clear()
                state = replace(state, updates=0)
            logger.info("resumed %s from its weights, optimizer state of %s", version, nearest)
        self.version, self.state = version, state

    def advance(self, version: str, state: TrainerState) -> None:
        """Call what is in memory `version`, now that it serves; write a checkpoint if one is due. Collective."""
        self.version, self.state = version, state
        if state.steps % self._settings.checkpoint_every == 0:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the head, unless there is one. Collective."""
        if self.version != BASE_VERSION and self.version not in checkpoints(self._paths.checkpoints):
            save_checkpoint(
                self._paths.checkpoints, self.version, self.policy, self.optimizer, self._ranks, self._settings.keep_checkpoints
            )
