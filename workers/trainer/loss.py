"""The objective: decoupled PPO on single tokens. Pure functions of tensors.

Decoupled PPO (Hilton et al., arXiv 2110.00641; AReaL, arXiv 2505.24298, section 5.2): with θ the policy in training, prox the
policy at the start of the update and behav the one that sampled token a_t in state s_t,

    J(θ) = Σ_t w_t · β_t · min(ρ_t A_t, clip(ρ_t, 1 − ε_low, 1 + ε_high) A_t)
    ρ_t = π_θ(a_t|s_t) / π_prox(a_t|s_t)         β_t = π_prox(a_t|s_t) / π_behav(a_t|s_t), no gradient

so a sample of an older policy is corrected by β and the step is bounded around a recent policy. β is truncated (min(β, C); TIS of
arXiv 2505.24298 and IMPALA, arXiv 1802.01561), or the token is masked where β leaves [1/C, C], or β is left out (`none`: stale
samples count as if the policy had just drawn them). All logprobs are those of the logits
divided by the sampling temperature. Optional: KL to a reference policy, estimated per token by k3 (Schulman 2020; GRPO, arXiv
2402.03300, eq. 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workers.trainer.objective import BehaviourWeight, Objective


@dataclass(slots=True, frozen=True)
class LossTerms:
    """`loss` is a scalar to minimise. Per token, no gradient: `clipped` [M] bool where the clip cut the gradient off,
    `limited` [M] bool where β was truncated or the token masked, `ratio` [M] ρ, `divergence` [M] k3 where there is a reference."""

    loss: Tensor
    clipped: Tensor
    limited: Tensor
    ratio: Tensor
    divergence: Tensor | None = None


def token_logprobs(logits: Tensor, temperatures: Tensor, predictor: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Logprobs of sampled tokens under temperature-scaled logits.

    `logits` [P, V], `temperatures` [P], `predictor` [M] row of each token's logits, `targets` [M] token ids.
    Gives logprobs [M] with gradient, and the entropy [P] of each distribution without, in float32 or wider.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scaled = torch.log_softmax(wide / temperatures[:, None], dim=-1)
    with torch.no_grad():
        entropy = -(scaled.exp() * scaled).sum(-1)
    return scaled[predictor, targets], entropy


def behaviour_weights(proximal: Tensor, behaviour: Tensor, cap: float, mode: BehaviourWeight) -> tuple[Tensor, Tensor]:
    """β [M] after truncation at `cap` or masking outside [1/cap, cap], and where that changed it [M] bool; 1 for `none`."""
    if mode == "none":
        return torch.ones_like(proximal), torch.zeros_like(proximal, dtype=torch.bool)
    weight = (proximal - behaviour).exp()
    if mode == "truncate":
        return weight.clamp(max=cap), weight > cap
    outside = (weight > cap) | (weight < 1.0 / cap)
    return torch.where(outside, 0.0, weight), outside


def decoupled_ppo(
    logprobs: Tensor,
    proximal: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    weights: Tensor,
    objective: Objective,
    reference: Tensor | None = None,
) -> LossTerms:
    """−J(θ) + kl_coef · Σ_t w_t · k3_t. All tensors [M]; `weights` w_t; gradient flows through `logprobs` only."""
    beta, limited = behaviour_weights(proximal, behaviour, objective.behaviour_cap, objective.behaviour_weight)
    ratio = (logprobs - proximal).exp()
    bounded = ratio.clamp(1.0 - objective.clip_low, 1.0 + objective.clip_high)
    surrogate = torch.minimum(ratio * advantages, bounded * advantages)
    loss = -(weights * beta * surrogate).sum()
    clipped = (bounded * advantages < ratio * advantages).detach()
    if reference is None:
        return LossTerms(loss, clipped, limited, ratio.detach())
    divergence = k3(logprobs, reference)
    loss = loss + objective.kl_coef * (weights * divergence).sum()
    return LossTerms(loss, clipped, limited, ratio.detach(), divergence.detach())


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """[M] an unbiased, non-negative estimate of KL(π_θ ‖ π_ref) from tokens sampled by π_θ: r − 1 − log r, r = π_ref / π_θ."""
    log_ratio = reference - logprobs
    return log_ratio.exp() - 1.0 - log_ratio
