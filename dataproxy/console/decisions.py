"""What decisions about training say to people: why, and where redaction overwrote too much, how much that was. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from dataproxy.admit import VAULT_ONLY, AdmissionPolicy
from dataproxy.console.words import reason

Altered = tuple[int, int]
"""How many tokens of an answer and its prompt redaction overwrote, and how many there are."""


def because(decision: Row[Any], altered: Altered | None, policy: AdmissionPolicy) -> str:
    """The reason of ``decision`` (a row of ``eligibility``) in words.

    Where redaction overwrote too much: also how much, unless the tokens are erased (None), and the limit. It is known of decisions
    by ``policy``, which holds now; of an older one only the limit of now can be told.
    """
    why = reason(decision.reason)
    if decision.reason not in ("altered", VAULT_ONLY):
        return why
    limit = f"{100 * policy.max_altered:.4g} %"
    held = decision.policy == policy.version
    said = f"at most {limit} may be" if held else f"the limit of then is not known, now it is {limit}"
    if altered is not None:
        num, of = altered
        said = f"{num:,} of {of:,} tokens, the prompt's included: {100 * num / of:.4g} %; {said}"
    return f"{why} ({said}, by the setting max_altered)"


def against(decisions: Sequence[Row[Any]], altered: Mapping[int, Altered], policy: AdmissionPolicy) -> str:
    """Why a turn, or which of its answers, may not train, in a sentence; "" where nothing stands against any.

    ``decisions`` are one an answer; ``altered`` is by choice.
    """
    refused: dict[str, list[str]] = {}
    for one in decisions:
        if one.reason != "eligible":
            refused.setdefault(because(one, altered.get(one.choice), policy), []).append(str(one.choice))
    if not refused:
        return ""
    if len(decisions) == 1:
        return f"This turn may not train: {next(iter(refused))}."
    num = sum(len(choices) for choices in refused.values())
    each = "; ".join(f"choice {', '.join(choices)}, because {why}" for why, choices in refused.items())
    return f"{num} of this turn's {len(decisions)} answers may not train: {each}."
