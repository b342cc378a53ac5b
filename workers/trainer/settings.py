"""The trainer's settings: environment variables HEADRACE_TRAINER_*, over `trainer.toml` in the config directory, read once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from workers.inference.client import Delivery
from workers.inference.client.adapter_checksum import FUSED
from workers.trainer.adapter import AdapterShape
from workers.trainer.compute import Compute
from workers.trainer.hardware import fast_dtype
from workers.trainer.learning import Learning, ValueHead
from workers.trainer.objective import BehaviourWeight, Objective


class Settings(BaseSettings):
    """Defaults are those of the embedded machine: SmolLM2-135M on a CPU, one short trajectory a sample."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_TRAINER_", extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    data_dir: Path
    """Where versions, checkpoints and metrics go, and where the data proxy's socket is."""
    config_dir: Path
    """Holds trainer.key, the API key for the data proxy."""
    model_path: Path
    """Hugging Face directory that becomes v000000; the engines start with the same weights."""
    engine_urls: list[str] = Field(min_length=1)
    """Engines that take each version, one after another, where no gateway lists them."""
    gateway_url: str = ""
    """The gateway whose workers take each version instead: those that join later are found, those that fail leave rotation."""
    swap: Delivery = "tensors"
    """How new weights reach an engine: tensors (shared memory), disk (it reads the version), distributed (broadcast by gloo), or
    adapter (a LoRA adapter stays one, beside the weights it was trained on; the engines are started with --enable-lora)."""
    swap_host: str = "127.0.0.1"
    """This machine's address as the engines reach it, for broadcasts."""
    audit_every_s: float = Field(600.0, gt=0)
    """Seconds between two comparisons of a worker's checksum with its version's, each a moment in which it samples nothing."""
    tenant: str | None = None
    """Train on this tenant's trajectories only; none: on those of all."""
    agent: str | None = None
    """Train on this agent's trajectories only; none: on those of all."""
    batch_trajectories: int = Field(32, ge=1)
    """Trajectories in a batch; the trainer waits until so many are ready."""
    max_staleness: int = Field(2, ge=0)
    """Versions that the oldest token of a trajectory may lie behind; older ones are left out."""
    max_reuse: int = Field(1, ge=1)
    """Versions that may learn from one trajectory."""
    poll_s: float = Field(1.0, gt=0)
    """Seconds between two looks for a full batch."""
    lease_ttl_s: float = Field(60.0, gt=0)
    """Seconds until the lease of a trainer that died returns; a living one renews it."""
    train_layers: int = Field(10, ge=0)
    """Train the last so many decoder layers only, the rest is frozen; 0: everything. A third of them halves a step's cost."""
    lora_rank: int = Field(0, ge=0)
    """Train a LoRA adapter of this rank in those layers instead of their weights; 0: the weights. Wants ten times the rate."""
    lora_alpha: float = Field(16.0, gt=0)
    """An adapter's output is scaled by alpha / rank."""
    lora_targets: list[str] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    """The linear layers that get an adapter."""
    learning_rate: float = Field(1e-4, gt=0)
    """AdamW's rate after warm-up."""
    warmup_updates: int = Field(2, ge=1)
    """Updates over which the rate rises linearly from the start, or from a restart without optimizer state."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    updates_per_batch: int = Field(1, ge=1)
    """Optimizer updates on one batch, each on its share of the trajectories; above 1 the proximal logprobs cost a forward."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    """ε_low of the clipped ratio."""
    clip_high: float = Field(0.28, gt=0)
    """ε_high of the clipped ratio."""
    behaviour_cap: float = Field(5.0, gt=1)
    """Bound on proximal / behaviour probability of a token."""
    behaviour_weight: BehaviourWeight = "truncate"
    """What happens beyond the bound: the weight is truncated, or the token masked; none: no weight, nothing is corrected."""
    kl_coef: float = Field(0.0, ge=0)
    """Weight of the KL to v000000; above 0 its weights are held in memory and run forward each step."""
    learning: Learning = Learning()
    """How agents are learned from (`advantage`, `credit`, `discount`), as JSON; for those without an entry in `agents`."""
    agents: dict[str, Learning] = {}
    """The same by agent, as JSON: `{"triage": {"advantage": "group"}, "acme/coder": {"credit": "both", "discount": 0.9}}`."""
    value_head: ValueHead = ValueHead()
    """The value head of agents whose `advantage` is `gae` (`gae_lambda`, `learning_rate`, `passes`), as JSON."""
    baseline_decay: float = Field(0.7, ge=0, lt=1)
    """What the running baseline keeps of earlier batches' weight at each batch."""
    scale_floor: float = Field(0.05, gt=0)
    """Smallest standard deviation, in units of reward, that advantages are divided by."""
    compute_dtype: Literal["float32", "bfloat16"] = Field(default_factory=fast_dtype)
    """Dtype of forward and backward; masters, optimizer and gradient sums are float32 always. Not set: bfloat16 where the hardware
    multiplies it (1.7 times as fast), else float32.
    """
    publish_dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Dtype of a version's file; the engine's own, so that it serves what was verified."""
    microbatch_tokens: int = Field(1024, ge=1)
    """Distinct tokens in one forward and backward; about 1.2 MB of activations each for SmolLM2 in bfloat16."""
    checkpoint_activations: bool = False
    """Recompute each layer's activations in backward: a third more compute, a fraction of the memory."""
    checkpoint_every: int = Field(10, ge=1)
    """Steps between two checkpoints of masters and optimizer (12 bytes a parameter); one is also written at a clean stop."""
    keep_checkpoints: int = Field(2, ge=1)
    """Checkpoints kept."""
    keep_versions: int = Field(8, ge=1)
    """Versions kept, of the newest and of the head's line, beside v000000 and what serves; the others can't be put back."""
    max_steps: int = Field(0, ge=0)
    """Stop after so many steps of this process; 0: never."""
    seed: int = 0
    """Orders the trajectories among the updates of a batch; nothing else is random."""
    compute: Compute = Compute()
    """How cores that engines and the trainer share are divided, as JSON."""
    evaluate: str = ""
    """Held-out score of each version: `module:function`, or a command with `{directory}` in it; see `evaluation`. Empty: none."""
    evaluate_every: int = Field(1, ge=1)
    """Steps between two evaluations."""
    evaluate_timeout_s: float = Field(600.0, gt=0)
    """Seconds after which an evaluating command is ended; the step goes on without a score."""
    tensorboard: bool = False
    """Write event files for TensorBoard; needs the extra of that name."""
    metrics_port: int = Field(0, ge=0, le=65535)
    """Serve Prometheus metrics at this port; 0: only the file trainer/metrics.prom."""
    metrics_host: str = "127.0.0.1"
    """The address that they are served on."""
    json_logs: bool = False
    """Log lines as JSON."""

    def objective(self) -> Objective:
        """The constants of the loss."""
        return Objective(self.clip_low, self.clip_high, self.behaviour_cap, self.behaviour_weight, self.kl_coef)

    def adapter(self) -> AdapterShape | None:
        """The shape of the adapter to train, if one is."""
        return (
            AdapterShape(self.lora_rank, self.lora_alpha, tuple(self.lora_targets), self.train_layers) if self.lora_rank else None
        )

    def learning_of(self, tenant: str, agent: str) -> Learning:
        """How the agent is learned from: its entry under its tenant, else under its name alone, else the common one."""
        return self.agents.get(f"{tenant}/{agent}") or self.agents.get(agent) or self.learning

    def uses_gae(self) -> bool:
        """Whether any agent's advantages come from a value head."""
        return any(learning.advantage == "gae" for learning in (self.learning, *self.agents.values()))

    def api_key(self) -> str:
        """The key for the data proxy. Raises: FileNotFoundError before `headrace up` has made it."""
        return (self.config_dir / "trainer.key").read_text().strip()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over the file, where there is one."""
        file = Path(os.environ.get("HEADRACE_TRAINER_CONFIG_DIR", ".")) / "trainer.toml"
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    @model_validator(mode="after")
    def _adapter_can_be_served(self) -> Self:
        if self.swap != "adapter":
            return self
        if not self.lora_rank:
            raise ValueError("the way adapter needs an adapter to serve: set lora_rank, or swap to another way")
        for parts in FUSED.values():
            missing = set(parts) - set(self.lora_targets)
            if missing and missing != set(parts):
                raise ValueError(f"engines fuse {', '.join(parts)}: for the way adapter lora_targets must have all or none of them")
        return self

    @model_validator(mode="after")
    def _line_is_kept(self) -> Self:
        if self.keep_versions <= self.max_staleness:
            raise ValueError("keep_versions must exceed max_staleness: the line of the head is read from the versions kept")
        return self
