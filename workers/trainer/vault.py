"""Opens raw tokens that a lease brought sealed: rows as the engine sampled them, nothing masked. In memory of the trainer alone.

Not owned: who may open them (the data proxy, which hands over the key and has put that on record before). Place in the path:
between the lease and the selection of a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec
import numpy as np

from atdp.samples import Lease, SealedTokens, TokenSequence, TrainSample
from dataproxy.client.vaulted import RawTokens, SealedUnreadable, open_tokens

logger = logging.getLogger(__name__)


def opened(lease: Lease) -> Lease:
    """`lease` with every row that can be opened as it was sampled; the keys are let go of."""
    if not any(sample.vault_key for sample in lease.samples):
        return lease
    return msgspec.structs.replace(lease, samples=[open_sample(sample) for sample in lease.samples])


def open_sample(sample: TrainSample) -> TrainSample:
    """`sample` without its key and with raw rows; what does not open stays masked, and is logged."""
    if not sample.vault_key:
        return sample
    sequences = [_restored(sequence, list(_readable(sequence.vaulted, sample))) for sequence in sample.sequences]
    return msgspec.structs.replace(sample, sequences=sequences, vault_key=b"")


def _readable(sealed: Iterable[SealedTokens], sample: TrainSample) -> Iterable[tuple[SealedTokens, RawTokens]]:
    for one in sealed:
        try:
            yield one, open_tokens(sample.vault_key, one.sealed, sample.tenant, one.event_id, one.choice)
        except SealedUnreadable as error:
            logger.error("trajectory %s stays masked: %s", sample.trajectory_id, error)


def _restored(sequence: TokenSequence, found: list[tuple[SealedTokens, RawTokens]]) -> TokenSequence:
    """The row with the raw prompts and outputs of `found`, each a beginning of it, and the loss on all of its own turns.

    Arrays [L] as in `TokenSequence`. Ids that were not overwritten must agree; a choice whose ids don't is left as it was.
    """
    ids, altered = sequence.ids().copy(), np.frombuffer(sequence.altered, np.uint8).copy()
    mask, logprobs = np.frombuffer(sequence.loss_mask, np.uint8).copy(), sequence.behaviour_logprobs().copy()
    own = {(turn.event_id, turn.choice) for turn in sequence.turns}
    for sealed, raw in found:
        whole = np.frombuffer(raw.prompt_ids + raw.output_ids, "<i4")
        end = len(whole)
        agrees = len(raw.prompt_ids) == 4 * sealed.start and end <= len(ids)
        if not agrees or not ((ids[:end] == whole) | (altered[:end] != 0)).all():
            logger.error("the raw tokens of %s#%s are not those of its row", sealed.event_id, sealed.choice)
            continue
        ids[:end], altered[:end] = whole, 0
        if (sealed.event_id, sealed.choice) in own:
            mask[sealed.start : end], logprobs[sealed.start : end] = 1, np.frombuffer(raw.logprobs, "<f4")
    return msgspec.structs.replace(
        sequence,
        token_ids=ids.tobytes(),
        altered=altered.tobytes(),
        loss_mask=mask.tobytes(),
        logprobs=logprobs.tobytes(),
        vaulted=[],
    )
