"""Training samples: what a lease hands to the trainer, and the manifest that explains a batch.

Arrays travel as raw little-endian bytes inside msgpack; the properties give numpy views of them.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from atdp.errors import InvalidEvent
from atdp.rewards import Reward


class TurnSpan(msgspec.Struct, frozen=True):
    """The sampled tokens [start, end) of one choice of a model call, and its own effective reward: the call's and the choice's.

    ``truncated``: cut by length; ``extended``: a later call goes on from it all the same.
    """

    event_id: str
    start: int
    end: int
    reward: float | None = None
    choice: int = 0
    truncated: bool = False
    extended: bool = False


class SealedTokens(msgspec.Struct, frozen=True):
    """Raw tokens of one choice, readable with the key of its trajectory alone; its output begins at ``start`` of the row."""

    event_id: str
    choice: int
    start: int
    sealed: bytes


class TokenSequence(msgspec.Struct, frozen=True):
    """One row for the trainer: a chain of calls joined by exact token prefix. Made by assembly.

    Every array has length L = number of tokens (prompts and outputs in order):
    token_ids int32, loss_mask uint8 (1: sampled by the policy and trainable), logprobs float32 (behaviour, 0 where the mask is 0),
    versions int32 (policy version index, −1 where not sampled), altered uint8 (1: id overwritten by redaction). ``vaulted`` are the
    choices of the chain whose raw tokens came along, sealed.
    """

    token_ids: bytes
    loss_mask: bytes
    logprobs: bytes
    versions: bytes
    altered: bytes
    turns: list[TurnSpan]
    vaulted: list[SealedTokens] = []

    def __len__(self) -> int:
        return len(self.token_ids) // 4

    def validate(self) -> None:
        """Check that all arrays have one length and every turn lies inside.

        Raises:
            InvalidEvent: they don't; such a sequence is never padded.
        """
        length = len(self)
        sizes = {"loss_mask": 1, "altered": 1, "logprobs": 4, "versions": 4}
        for name, size in sizes.items():
            if len(getattr(self, name)) != length * size:
                raise InvalidEvent(f"{name} has {len(getattr(self, name)) / size:g} entries for {length} tokens")
        if any(not 0 <= turn.start <= turn.end <= length for turn in self.turns):
            raise InvalidEvent("a turn lies outside its sequence")

    def ids(self) -> NDArray[np.int32]:
        """[L] int32."""
        return np.frombuffer(self.token_ids, np.dtype("<i4"))

    def mask(self) -> NDArray[np.bool_]:
        """[L] bool: where the loss is taken."""
        return np.frombuffer(self.loss_mask, np.uint8).astype(np.bool_)

    def behaviour_logprobs(self) -> NDArray[np.float32]:
        """[L] float32."""
        return np.frombuffer(self.logprobs, np.dtype("<f4"))

    def version_indices(self) -> NDArray[np.int32]:
        """[L] int32, −1 where not sampled."""
        return np.frombuffer(self.versions, np.dtype("<i4"))


class TrainSample(msgspec.Struct, frozen=True):
    """One trajectory to train on: the unit of gradient, whatever the number of its sequences. ``rewards`` as seen at the lease.

    ``left_out`` counts its choices that are context only, by reason. ``vault_key`` opens what is sealed in its sequences;
    it is written nowhere. ``group`` is the task that its session attempts among others, as the caller named it.
    """

    trajectory_id: str
    tenant: str
    agent: str
    session_id: str
    temperature: float
    reward: float
    rewards: list[Reward]
    sequences: list[TokenSequence]
    tokenizer: str = ""
    left_out: dict[str, int] = {}
    vault_key: bytes = b""
    group: str = ""


class Lease(msgspec.Struct, frozen=True):
    """Trajectories lent to one trainer until ``deadline_us`` (UTC µs); not acked by then, they return.

    ``skipped`` counts eligible-looking trajectories that were left out of this lease, by reason (stale, reused, …), among the
    newest. Rewards are as of ``as_of_us``, by the store's clock.
    """

    lease_id: str
    deadline_us: int
    samples: list[TrainSample]
    skipped: dict[str, int] = {}
    as_of_us: int = 0


class BatchManifest(msgspec.Struct, frozen=True):
    """What a training step consumed. Stored before the step; named by the version that the step makes.

    ``rewards`` maps a trajectory id to the reward used; ``left_out`` counts reasons; ``config`` holds the trainer's settings.
    """

    batch_id: str
    lease_id: str
    parent_version: str
    version: str
    created_us: int
    trajectories: list[str]
    rewards: dict[str, float]
    as_of_us: int
    left_out: dict[str, int] = {}
    config: dict[str, float | int | str | bool] = {}
