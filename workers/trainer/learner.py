"""The learner: what a rank holds in memory (weights, optimizer, and the version they are), and how it gets there.

Owns restoring a version and the state that goes with it, at start, after a rollback and after a step that came to nothing.
Not owned: the step itself (`step`), files (`version_directory`, `checkpoint`).
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from workers.trainer.adapter import Adapter, AdapterRecord, read_adapter
from workers.trainer.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from workers.trainer.critic import Critic, read_critic
from workers.trainer.paths import TrainerPaths
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.selection import Head, head_of
from workers.trainer.settings import Settings
from workers.trainer.step import make_optimizer
from workers.trainer.version_directory import (
    BASE_VERSION,
    WEIGHTS,
    TrainerState,
    VersionManifest,
    is_complete,
    lineage,
    verify,
)

logger = logging.getLogger(__name__)


class Learner:
    """One rank's. `version` is the head: the version whose weights are in memory; `state` came with it. With an adapter,
    `adapter_base` is the version whose weights it is added to."""

    def __init__(self, settings: Settings, paths: TrainerPaths, ranks: Ranks) -> None:
        self._settings = settings
        self._versions = paths.versions
        self._ranks = ranks
        base, shape = paths.versions / BASE_VERSION, settings.adapter()
        self._checkpoints = paths.checkpoints_of(None if shape is None else shape.name)
        self.policy = Policy(base, ranks, settings.compute_dtype, settings.train_layers, settings.checkpoint_activations, shape)
        if shape is not None:
            self.policy.begin_adapter(settings.seed)
        self.reference = Policy(base, ranks, settings.compute_dtype) if settings.kl_coef > 0 else None
        self.critic = self._new_critic() if settings.uses_gae() else None
        self.optimizer = make_optimizer(self.policy, settings.learning_rate, settings.weight_decay)
        self.version = BASE_VERSION
        self.adapter_base = BASE_VERSION
        self.state = TrainerState()

    def head(self) -> Head:
        """The head with its ancestors, as far as they are kept."""
        return head_of(lineage(self._versions, self.version))

    def adapter(self) -> Adapter | None:
        """The adapter as it is now, whole, if one is trained. Collective."""
        shape = self.policy.adapter
        return None if shape is None else Adapter(AdapterRecord(self.adapter_base, shape), self.policy.gather_adapter())

    def _new_critic(self) -> Critic:
        asked, size = self._settings.value_head, int(self.policy.model.config.hidden_size)  # type: ignore[union-attr, arg-type]
        return Critic(size, self._ranks, asked.learning_rate, asked.gae_lambda, asked.passes)

    def restore(self, version: str) -> None:
        """Hold `version`. Collective.

        With its own checkpoint: masters and optimizer exactly as they were. Without: masters from its published weights, the
        optimizer from the nearest ancestor's checkpoint, else empty, and then warm-up begins anew. An adapter comes with the
        version that it is added to, a critic with the version itself; where the version has none of this shape, a new one begins.
        Raises: VersionUnavailable.
        """
        manifest = verify(self._versions / version)
        if self.critic is not None:
            self.critic.load(read_critic(self._versions / version))
        saved = checkpoints(self._checkpoints)
        goes_on = self._load(manifest)
        if version in saved and goes_on:
            load_checkpoint(self._checkpoints, version, self.policy, self.optimizer, with_weights=True)
            self.version, self.state = version, manifest.state
            logger.info("resumed %s from its checkpoint", version)
            return
        line = [ancestor.version for ancestor in lineage(self._versions, version)]
        nearest = next((name for name in line if name in saved), None) if goes_on else None
        if nearest is not None:
            load_checkpoint(self._checkpoints, nearest, self.policy, self.optimizer, with_weights=False)
        else:
            self.optimizer.state.clear()
        self.version, self.state = version, manifest.state if nearest is not None else replace(manifest.state, updates=0)
        logger.info("resumed %s from its weights, optimizer state of %s", version, nearest)

    def _load(self, manifest: VersionManifest) -> bool:
        """Weights, and an adapter if one is trained; gives whether this goes on from what was trained before."""
        shape, record = self.policy.adapter, manifest.adapter
        if shape is None:
            self.policy.load(self._versions / manifest.version / WEIGHTS)
            return True
        if record is not None and record.shape == shape and is_complete(self._versions / record.base):
            self.adapter_base = record.base
            self.policy.load(self._versions / record.base / WEIGHTS)
            self.policy.load_adapter(read_adapter(self._versions / manifest.version))
            return True
        self.adapter_base = manifest.version
        self.policy.load(self._versions / manifest.version / WEIGHTS)
        self.policy.begin_adapter(self._settings.seed)
        return False

    def advance(self, version: str, state: TrainerState) -> None:
        """Call what is in memory `version`, now that it serves; write a checkpoint if one is due. Collective."""
        self.version, self.state = version, state
        if state.steps % self._settings.checkpoint_every == 0:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the head, unless there is one. Collective."""
        if self.version != BASE_VERSION and self.version not in checkpoints(self._checkpoints):
            keep = self._settings.keep_checkpoints
            save_checkpoint(self._checkpoints, self.version, self.policy, self.optimizer, self._ranks, keep)
