"""The engine's record of an answer: exact ids, behaviour logprobs, and the policy version behind each token.

Checked here, once: where lengths disagree the choice keeps no tokens and says why; nothing is padded or guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from atdp.arrays import FLOAT32, INT32, decode
from atdp.errors import AtdpError
from atdp.versions import version_index
from dataproxy.errors import Unprocessable

EXTERNAL_ENGINE = "litellm"


class Engine(msgspec.Struct, frozen=True):
    """Which engine answered."""

    name: str = ""
    version: str = ""


class RecordedChoice(msgspec.Struct, frozen=True):
    """One sampled answer as the engine sends it. ``versions``: [name, start, end) spans over the output tokens."""

    index: int
    output_ids: str
    logprobs: str = ""
    versions: list[tuple[str, int, int]] = []
    finish_reason: str | None = None


class EngineRecord(msgspec.Struct, frozen=True):
    """``headrace.record``. ``incomplete`` says why the engine could not give all of it.

    An external model's has no tokens, but what the call cost in US dollars, where a price is known, and the provider's counts.
    """

    v: int
    rid: str
    prompt_ids: str = ""
    choices: list[RecordedChoice] = []
    model: str = ""
    engine: Engine = Engine()
    sampling: dict[str, Any] = {}
    incomplete: str | None = None
    cost_usd: float | None = None
    usage: dict[str, Any] = {}

    @property
    def external(self) -> bool:
        """Somebody else's model answered: its tokens are nobody's here."""
        return self.engine.name == EXTERNAL_ENGINE

    def settings(self) -> dict[str, float | int | str | bool | None]:
        """``sampling`` without what agents wrote themselves: of texts, lists and objects only whether they hold anything."""
        return {name: bool(value) if isinstance(value, str | list | dict) else value for name, value in self.sampling.items()}


@dataclass(slots=True, frozen=True)
class SampledTokens:
    """One choice in the clear: prompt_ids [P] int32; output_ids [N] int32, logprobs [N] float32, versions [N] int32.

    ``fault`` names what is wrong with logprobs or versions; the arrays are then [N] of NaN or −1 and the sample is not trainable.
    """

    choice: int
    prompt_ids: NDArray[np.int32]
    output_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    finish_reason: str | None
    fault: str


_named_version = lru_cache(maxsize=1024)(version_index)
_decoder = msgspec.json.Decoder(EngineRecord)


def read_record(data: bytes) -> EngineRecord:
    """The record in ``data``.

    Raises:
        Unprocessable: it is not a record; its ids might hold what was never redacted, so the exchange is not stored in the clear.
    """
    try:
        record = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Unprocessable("record_malformed") from error
    if record.v != 1:
        raise Unprocessable("record_version")
    return record


def sampled_tokens(record: EngineRecord, answered: Sequence[int] | None = None) -> list[SampledTokens]:
    """The tokens of every choice; ``answered`` are the choices that the agent got, None where it got none whole.

    A record of other choices, or of one twice, tells nothing of which tokens are whose: none of them trains.

    Raises:
        Unprocessable: an array is not what its field says.
    """
    indices = [choice.index for choice in record.choices]
    conflict = len(set(indices)) < len(indices) or (answered is not None and sorted(indices) != sorted(answered))
    try:
        prompt = decode(record.prompt_ids, INT32)
        found = [_choice(prompt, choice, record.incomplete) for choice in record.choices]
    except AtdpError as error:
        raise Unprocessable("record_arrays") from error
    return [replace(tokens, fault=tokens.fault or "choices_conflict") for tokens in found] if conflict else found


def _choice(prompt: NDArray[np.int32], choice: RecordedChoice, incomplete: str | None) -> SampledTokens:
    output = decode(choice.output_ids, INT32)
    logprobs = decode(choice.logprobs, FLOAT32)
    versions, fault = _versions(choice, len(output))
    if len(logprobs) != len(output):
        logprobs, fault = np.full(len(output), np.nan, FLOAT32), "unequal_lengths"
    if incomplete is not None:
        fault = "record_incomplete"
    return SampledTokens(choice.index, prompt, output, logprobs, versions, choice.finish_reason, fault)


def _versions(choice: RecordedChoice, length: int) -> tuple[NDArray[np.int32], str]:
    versions = np.full(length, -1, INT32)
    expected = 0
    for name, start, end in choice.versions:
        if start != expected or not start <= end <= length:
            return np.full(length, -1, INT32), "version_spans"
        try:
            versions[start:end] = _named_version(name)
        except AtdpError:
            return np.full(length, -1, INT32), "unknown_version"
        expected = end
    return versions, "" if expected == length else "version_spans"
