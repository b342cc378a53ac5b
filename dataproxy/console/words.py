"""The console's words in plain language: decisions, how far a trajectory is, what a trainer measures, and a glossary. Pure."""

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {
    "eligible": "it may train",
    "no_consent": "no consent to train was on record",
    "external_model": "another provider's model answered; those never train",
    "disconnected": "the agent hung up before the answer was whole",
    "aborted": "the call was aborted",
    "incomplete": "no answer was recorded",
    "upstream_error": "the engine could not be reached",
    "engine_error": "the engine refused the call",
    "http_error": "the answer was an error",
    "no_tokens": "the engine gave no exact tokens",
    "engine_abort": "the engine stopped the answer half-way",
    "truncated": "the answer was cut off by its length limit",
    "bad_logprobs": "the engine's log-probabilities are not usable",
    "unequal_lengths": "the engine gave more or fewer probabilities than tokens",
    "record_incomplete": "the engine's record of the answer is not whole",
    "version_spans": "it is not known of every token which weights sampled it",
    "unknown_version": "it is not known which weights sampled it",
    "altered": "redaction overwrote too much of it",
    "secret_in_answer": "the answer held a secret",
    "dropped_kind": "it held a kind of value that this tenant never lets train",
    "choices_conflict": "the engine's answers contradict each other",
    "vault_only": "redaction overwrote too much of it; it trains only where its raw tokens were lent from the vault",
    "stale": "the weights that sampled it were too old for the step",
    "other_temperature": "it was sampled at another temperature than the trajectory's other turns",
    "reused": "as many versions as may had learned from it already",
    "leased": "a trainer held it",
    "legal_hold": "it was on legal hold, kept for audit alone",
    "mixed_lanes": "the canary and the other workers both answered it",
    "rolled_back": "weights that were rolled back sampled it",
    "other_branch": "weights that were rolled back sampled it",
    "no_credit": "no reward reached any of its turns",
    "no_trained_token": "it held no token to learn from",
    "nothing_to_train": "it held no token to learn from",
    "judge_abstained": "a judge looked at it and abstained",
    "internal_call": "a judge or another part of Headrace asked it; such calls never train",
}
PLACES: Final[Mapping[str, str]] = {
    "trained": "A version learned from it.",
    "not_eligible": "Nothing of it may train; why stands at each turn.",
    "no_consent": "It does not train: there is no consent to train on record.",
    "leased": "A trainer holds it right now.",
    "legal_hold": "It does not train while it is on legal hold: it is kept for audit alone.",
    "no_reward": "It waits for a reward; without one it never trains.",
    "no_reward_by_deadline": "It does not train: nobody rewarded it before its agent's deadline.",
    "judge_waits": "It waits for a judge's word.",
    "group_waits": "It is rewarded, and waits for the other attempts of its group.",
    "window_open": "It is rewarded, and waits until its reward window closes.",
    "settling": "It is rewarded, and waits until its agent has been silent for a while.",
    "ready": "It is ready: the next batch that takes versions this old may hold it.",
}
TERMS: Final[tuple[tuple[str, str], ...]] = (
    ("trajectory", "One conversation of an agent from its first call to its last: what it was asked, did, and was told."),
    ("turn", "One event of a trajectory: a call of the model, or of a tool. A branch goes on from an earlier turn."),
    (
        "choice",
        "One answer of a call of the model. A call has one, unless the agent asked for several; each has its own decision, and a"
        " turn is learned from if one of them is.",
    ),
    ("open, closed", "An open trajectory takes further calls of its conversation; a closed one none: they begin another."),
    ("dialect", "The form of the API that the agent spoke, such as OpenAI's or Anthropic's; it is recorded in one form."),
    ("session", "What the agent itself says belongs together. One session may hold several trajectories."),
    ("redacted", "Taken out before anything was stored. A surrogate such as <EMAIL_1> stands in its place; the value is nowhere."),
    ("quarantine", "Calls that could not be redacted for certain. They lie sealed, are shown nowhere and never train."),
    ("decision", "Whether an answer may train, made when it was recorded, with the reason and the policy that held."),
    ("admit-1-…", "The name of the policy that a decision was made by: its rules' number, and a fingerprint of their settings."),
    ("consent", "The word on record that a tenant's, an agent's or a session's calls may be recorded, and may be trained on."),
    ("reward", "How good it was, said by a user, a test, a judge or a rule, however late. Different rewards add up."),
    ("policy version", "One set of the model's weights, named v000007. It descends from a parent and learned from one batch."),
    ("canary", "A new version that answers a share of the sessions only, until it is promoted or rolled back."),
    ("rollback", "An earlier version is put back into service, under traffic. Nothing is deleted by it."),
    ("batch", "The trajectories that one version learned from, with each reward as it stood then."),
    ("lease", "Trajectories lent to a trainer for one step, until it answers or its time is over."),
    (
        "release",
        "An agent's own name for its version, from the header X-Headrace-Release; its harness is the fingerprint of its prompt.",
    ),
    ("staleness", "How many versions older than the trainer's the weights were that sampled a token."),
    ("mismatch", "How far the engine's and the trainer's probabilities of the same token lie apart on the same weights; near 0."),
    ("entropy", "How undecided the model is where it samples. Falling to 0: it stops exploring."),
    ("KL", "How far one version's probabilities are from another's, per token."),
    ("clip fraction", "The share of tokens whose step was cut off because it would have gone too far."),
    ("leaf", "The entry of one row in the log: a hash that the row has to fit."),
    ("checkpoint", "The log's state, signed. What it covers cannot be changed any more without being found out."),
    ("proof of inclusion", "The few hashes that lead from one leaf to a signed checkpoint. Anybody can compute them again."),
    ("hold", "A legal hold: what is on hold is neither erased nor expires, and does not train."),
    ("erasure", "Texts and tokens go for good; that something was there, and when, stays, under proof."),
    ("purpose", "Why you read. You say it when you sign in, and it stands beside every page that you open."),
)


def reason(name: str) -> str:
    """What a decision of that name says; a setting of sampling is named."""
    if name.startswith("sampling_"):
        return f"sampled with {name.removeprefix('sampling_')}, so its probabilities are not the recorded ones"
    return REASONS.get(name, name.replace("_", " "))


def place(name: str) -> str:
    """A sentence on how far a trajectory is."""
    return PLACES.get(name, name.replace("_", " "))
