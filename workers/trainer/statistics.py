"""What a step measures: sums that ranks can add up, and the differences between engine and trainer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workers.trainer.loss import LossTerms
from workers.trainer.packing import Microbatch


@dataclass(slots=True)
class StepStatistics:
    """Sums over trained tokens (`num_tokens`) and over sampling places (`num_places`) of one rank or of all.

    `computed` counts the nodes that went through the model; `differences` are |engine − trainer| logprobs where both had
    the same weights and the same context.
    """

    num_tokens: int = 0
    num_places: int = 0
    computed: int = 0
    loss: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    kl_reference: float | None = None
    clipped: int = 0
    limited: int = 0
    differences: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = field(default_factory=list)

    @torch.no_grad()
    def add(self, batch: Microbatch, proximal: Tensor, entropy: Tensor, terms: LossTerms) -> None:
        """Count one microbatch; a microbatch of weight zero (there only to keep ranks in step) counts nothing."""
        real = batch.weights > 0
        if not bool(real.any()):
            return
        self.num_tokens += int(real.sum())
        self.num_places += len(entropy)
        self.computed += batch.token_ids.shape[1]
        self.loss += float(terms.loss)
        self.entropy += float(entropy.sum())
        self.kl += float((batch.behaviour - proximal).sum())
        if terms.divergence is not None:
            self.kl_reference = (self.kl_reference or 0.0) + float(terms.divergence.sum())
        self.clipped += int(terms.clipped.sum())
        self.limited += int(terms.limited.sum())

    @torch.no_grad()
    def compare(self, batch: Microbatch, proximal: Tensor) -> None:
        """Keep the differences to the engine's logprobs; `proximal` [M] under the weights at the start of the batch."""
        wanted = batch.comparable & (batch.weights > 0)
        self.differences.append((batch.behaviour - proximal)[wanted].abs().float().cpu().numpy())


def merge(parts: Iterable[StepStatistics]) -> StepStatistics:
    """The sum over ranks."""
    total = StepStatistics()
    for part in parts:
        for name in ("num_tokens", "num_places", "computed", "loss", "entropy", "kl", "clipped", "limited"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
        if part.kl_reference is not None:
            total.kl_reference = (total.kl_reference or 0.0) + part.kl_reference
        total.differences.extend(part.differences)
    return total


def summary(total: StepStatistics) -> dict[str, float]:
    """Means and quantiles by name, as in metrics.jsonl. Quantiles are absent when no token could be compared."""
    tokens, places = max(total.num_tokens, 1), max(total.num_places, 1)
    result = {
        "loss": total.loss,
        "entropy": total.entropy / places,
        "kl_behaviour_proximal": total.kl / tokens,
        "clip_fraction": total.clipped / tokens,
        "limited_fraction": total.limited / tokens,
        "num_tokens": float(total.num_tokens),
        "num_computed": float(total.computed),
    }
    if total.kl_reference is not None:
        result["kl_reference"] = total.kl_reference / tokens
    differences = np.concatenate([np.empty(0, np.float32), *total.differences])
    result["num_compared"] = float(len(differences))
    if len(differences):
        result["logprob_diff_median"] = float(np.median(differences))
        result["logprob_diff_p99"] = float(np.quantile(differences, 0.99))
    return result
