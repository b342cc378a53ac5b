"""Governs one exchange: digest, redact, normalise, decide. Pure but for the redactor; no store.

Whatever cannot be done for certain raises, and the exchange goes to the quarantine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from atdp.arrays import FLOAT32, INT32
from atdp.events import Event, TokenRecord
from dataproxy.admit import EXTERNAL, INTERNAL_CALL, AdmissionPolicy, Decision, Sample, decide
from dataproxy.assemble.calls import NewCall
from dataproxy.capture.records import RequestHalf
from dataproxy.client.vault_types import VaultApproval
from dataproxy.client.vaulted import RawTokens
from dataproxy.digests import KeyedDigests, named_group, named_session
from dataproxy.drain.exchange import ParsedExchange, RawExchange, parse
from dataproxy.drain.identity import Identity, identify
from dataproxy.drain.normalise import NOT_KEPT, normalise
from dataproxy.drain.redaction import Redactor
from dataproxy.errors import Unprocessable
from dataproxy.ingest.mcp import DIALECT as MCP
from dataproxy.ingest.mcp import mcp_call, mcp_event
from dataproxy.ingest.tool_results import ToolResult, tool_results
from dataproxy.redact import Exchange, RedactedExchange
from dataproxy.store.consents import is_internal
from dataproxy.store.events import StoredEvent, Tokens

SECRET_KINDS = frozenset(("API_KEY", "CONNECTION_STRING", "JWT", "PRIVATE_KEY", "SECRET"))
"""Kinds of value that let whoever reads them in; an answer that held one never trains."""


@dataclass(slots=True, frozen=True)
class Rules:
    """What governs a tenant's exchanges. ``may_train`` answers for an agent and session ("": not named, or any).

    ``tokenizer`` is the engine's fingerprint; ``approval_of`` gives what lets an agent's raw tokens be kept.
    """

    digests: KeyedDigests
    redactor: Redactor
    policy: AdmissionPolicy
    tokenizer: str
    may_train: Callable[[str, str], bool]
    approval_of: Callable[[str], VaultApproval | None] = lambda agent: None


@dataclass(slots=True, frozen=True)
class Governed:
    """An exchange that may be stored, and what placing it needs.

    ``is_retry``: look for an earlier event with its request digest. ``stands_alone``: it belongs to no conversation, as
    what the system itself asks: no trajectory, no session, nothing that a judge would look at.
    ``raw``: the tokens of its eligible choices that go into the vault, under ``approval`` (its id, and days).
    """

    event: StoredEvent
    call: NewCall
    is_retry: bool
    tool_results: list[ToolResult]
    stands_alone: bool = False
    raw: dict[int, RawTokens] = field(default_factory=dict)
    approval: tuple[str, float] = ("", 0.0)


def govern(raw: RawExchange, rules: Rules) -> Governed:
    """Everything that is done to an exchange before the store.

    Raises:
        Unprocessable: it cannot be parsed.
        RedactionFailed: it cannot be redacted for certain.
    """
    if raw.request.dialect == MCP:
        return _govern_mcp(raw, rules)
    parsed = parse(raw, rules.digests)
    identity = identify(parsed, rules.digests)
    redacted = rules.redactor.redact_exchange(_for_redaction(parsed))
    if len(redacted.output_ids) != len(parsed.tokens) or len(redacted.output_altered) != len(parsed.tokens):
        raise Unprocessable("redaction_shape")
    event = normalise(parsed, redacted, identity, rules.digests)
    tokens = _tokens(parsed, redacted, identity, rules.tokenizer)
    consent = rules.may_train(raw.request.agent, _session_of(parsed, redacted, rules.digests))
    approval = rules.approval_of(raw.request.agent)
    decisions = _decisions(parsed, tokens, redacted, consent, rules, approval is not None)
    call = _call(parsed, redacted, identity, rules.digests, decisions)
    event = replace(event, event=_grouped(event.event, call), tokens=tokens, decisions=decisions, policy=rules.policy.version)
    messages = redacted.request.get("messages") if isinstance(redacted.request, dict) else None
    brought = tool_results(parsed, messages, event, rules.digests)
    governed = Governed(event, call, identity.is_retry, brought, stands_alone=is_internal(raw.request.agent))
    return governed if approval is None else _to_keep(governed, parsed, approval)


def _grouped(event: Event, call: NewCall) -> Event:
    """With the group that its caller named."""
    m = event.m | ({"group_size": call.group_size} if call.group_size else {})
    return msgspec.structs.replace(event, group=call.group, m=m) if call.group else event


def _to_keep(governed: Governed, parsed: ParsedExchange, approval: VaultApproval) -> Governed:
    """With the raw tokens of what may train."""
    eligible = {choice for choice, decision in governed.event.decisions.items() if decision.eligible}
    raw = {
        sampled.choice: RawTokens.of(sampled.prompt_ids, sampled.output_ids, sampled.logprobs)
        for sampled in parsed.tokens
        if sampled.choice in eligible
    }
    return replace(governed, raw=raw, approval=(approval.approval_id, approval.days))


def _govern_mcp(raw: RawExchange, rules: Rules) -> Governed:
    """A tool call or resource read at an MCP server: no tokens, so nothing to decide. Without a session it stands alone."""
    event = mcp_event(raw.request, raw.response, rules.redactor, rules.digests)
    call = mcp_call(raw.request, event)
    return Governed(event, call, is_retry=False, tool_results=[], stands_alone=not call.session_id)


def _for_redaction(parsed: ParsedExchange) -> Exchange:
    raw, response = parsed.raw.request, parsed.raw.response
    strings = {"session_id": raw.session_id, "path": raw.path, "model": raw.model, "error": response.error if response else ""}
    strings |= {f"header.{name}": value for name, value in raw.headers.items()} | ({"group": raw.group} if raw.group else {})
    prompt = parsed.tokens[0].prompt_ids if parsed.tokens else None
    answer = {name: value for name, value in parsed.answer.items() if name not in NOT_KEPT}
    outputs = [tokens.output_ids for tokens in parsed.tokens]
    return Exchange(parsed.request, answer, prompt, outputs, strings, frozenset(raw.surrogates))


def _tokens(parsed: ParsedExchange, redacted: RedactedExchange, identity: Identity, tokenizer: str) -> list[Tokens]:
    found: list[Tokens] = []
    temperature = parsed.record.sampling.get("temperature") if parsed.record else None
    for i, sampled in enumerate(parsed.tokens):
        if redacted.prompt_ids is None or redacted.prompt_altered is None:
            raise Unprocessable("redaction_shape")
        output, altered = redacted.output_ids[i], redacted.output_altered[i]
        if len(redacted.prompt_ids) != len(sampled.prompt_ids) or not len(output) == len(altered) == len(sampled.output_ids):
            raise Unprocessable("redaction_shape")
        if sampled.choice not in identity.borders:
            continue  # no token at all
        record = TokenRecord(
            choice=sampled.choice,
            prompt_ids=redacted.prompt_ids.astype(INT32, copy=False).tobytes(),
            output_ids=output.astype(INT32, copy=False).tobytes(),
            logprobs=np.where(altered != 0, FLOAT32.type(0), sampled.logprobs).astype(FLOAT32, copy=False).tobytes(),
            versions=sampled.versions.astype(INT32, copy=False).tobytes(),
            prompt_altered=redacted.prompt_altered.astype(np.uint8, copy=False).tobytes(),
            output_altered=altered.astype(np.uint8, copy=False).tobytes(),
            finish_reason=sampled.finish_reason,
            tokenizer=tokenizer,
        )
        num_altered = int(redacted.prompt_altered.sum()) + int(altered.sum())
        full_digest = identity.borders[sampled.choice][1]
        known = float(temperature) if isinstance(temperature, int | float) else 0.0
        found.append(Tokens(record, known, num_altered, full_digest))
    return found


def _secret_in_answer(redacted: RedactedExchange) -> bool:
    return any(span.kind in SECRET_KINDS and span.path.startswith("/response/") for span in redacted.spans)


def _session_of(parsed: ParsedExchange, redacted: RedactedExchange, digests: KeyedDigests) -> str:
    """The session that the agent named; "" where it named none."""
    raw = parsed.raw.request
    inferred = raw.session_source == "inferred" or not raw.session_id
    return "" if inferred else named_session(digests, raw.session_id, redacted.strings["session_id"])


def _group_of(raw: RequestHalf, redacted: RedactedExchange, digests: KeyedDigests) -> str:
    return named_group(digests, raw.group, redacted.strings["group"]) if raw.group else ""


def _decisions(
    parsed: ParsedExchange, tokens: list[Tokens], redacted: RedactedExchange, consent: bool, rules: Rules, vaulted: bool
) -> dict[int, Decision]:
    status = parsed.raw.response.status if parsed.raw.response else 0
    never = INTERNAL_CALL if is_internal(parsed.raw.request.agent) else ""
    by_choice = {item.record.choice: item for item in tokens}
    decisions = {}
    for sampled in parsed.tokens:
        stored = by_choice.get(sampled.choice)
        sample = Sample(
            finish_reason=sampled.finish_reason,
            fault=sampled.fault,
            sampling=parsed.record.settings() if parsed.record else {},
            logprobs=sampled.logprobs,
            versions=sampled.versions,
            num_altered=stored.num_altered if stored else 0,
            num_tokens=len(sampled.prompt_ids) + len(sampled.output_ids),
            secret=_secret_in_answer(redacted),
            dropped=redacted.never_trains,
            vaulted=vaulted,
        )
        decisions[sampled.choice] = decide(rules.policy, consent, sample, status, parsed.delivery, never)
    if parsed.record is not None and parsed.record.external:
        never = never or EXTERNAL
    return decisions or {0: decide(rules.policy, consent, None, status, parsed.delivery, never)}


def _call(
    parsed: ParsedExchange, redacted: RedactedExchange, identity: Identity, digests: KeyedDigests, decisions: dict[int, Decision]
) -> NewCall:
    raw, response = parsed.raw.request, parsed.raw.response
    inferred = raw.session_source == "inferred" or not raw.session_id
    versions = [int(sampled.versions[-1]) for sampled in parsed.tokens if len(sampled.versions)]
    return NewCall(
        tenant=raw.tenant,
        agent=raw.agent,
        event_id=raw.event_id,
        session_id=_session_of(parsed, redacted, digests),
        session_source=raw.session_source,
        routing_name=raw.session_id if inferred else "",
        started_us=raw.started_us,
        ended_us=max(response.ended_us, raw.started_us) if response else raw.started_us,
        prefixes=identity.prefixes,
        token_prefixes=identity.token_prefixes,
        continues=parsed.previous,
        ends=identity.ends,
        prompt_ids=parsed.tokens[0].prompt_ids if parsed.tokens else None,
        borders=identity.borders,
        num_eligible=sum(decision.eligible for decision in decisions.values()),
        last_version=versions[0] if versions else -1,
        newest_version=max((int(sampled.versions.max(initial=-1)) for sampled in parsed.tokens), default=-1),
        lane=response.lane if response and response.worker else "",
        group=_group_of(raw, redacted, digests),
        group_size=raw.group_size,
    )
