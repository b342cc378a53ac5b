"""What a tenant can ask that names something: one line a route, with the place where the name goes and what may stand there.

Every route of the data proxy and of the gateway that reads or changes anything is here; a test holds the lists to the routes.
"""

from dataclasses import dataclass, field
from typing import Any

NAME = "{name}"
"""Where the name of somebody else's thing goes: in a path, a query, a header, or a body."""

OWN_TENANT = "acme"

EVENT, COMPLETION, TRAJECTORY, SESSION = "event", "completion", "trajectory", "session"
KEY, LEASE, BATCH, REWARD, TENANT, AGENT, HOLD = "key", "lease", "batch", "reward", "tenant", "agent", "hold"
RESPONSE, VIEW = "response", "view"
APPROVAL = "approval"
TARGETS = (EVENT, COMPLETION, TRAJECTORY, SESSION)


@dataclass(slots=True, frozen=True)
class Attempt:
    """A request by a key of ``role``; ``kinds`` are the names that NAME may stand for, none where nothing can be named."""

    method: str
    path: str
    role: str
    kinds: tuple[str, ...] = ()
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    route: str = ""
    """The route's own form of the path, where a query or a name makes it another."""
    claims: bool = False
    """The name becomes one of the caller's own by it (or of its own reads), which is right: tenants may use the same names."""


def _event(**changes: Any) -> dict[str, Any]:
    event = {"atdp": "1.0", "event_id": "{fresh}", "kind": "tool_call", "started_at": 1, "ended_at": 2, "agent": "triage"}
    return {"events": [event | changes]}


def _spans(attribute: str) -> dict[str, Any]:
    """OTLP as JSON: one span of a tool that ran, NAME as an attribute."""
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.agent.name": "triage", attribute: NAME}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "t", "attributes": attributes}
    timed = span | {"startTimeUnixNano": "1000", "endTimeUnixNano": "2000"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [timed]}]}]}


_LEASE = {"max_trajectories": 4, "ttl_s": 60, "version_now": "v000000", "max_staleness": 9, "max_reuse": 9, "min_trajectories": 99}
"""Too many to be lent, so that asking changes nothing."""
_VERSION = {"version": "v000009", "parent": None, "state": "serving", "created_us": 1, "directory": "/x"}
_ORDER = {"version": "v000000", "action": "serve", "reason": "x"}
_MANIFEST = {
    "batch_id": NAME, "lease_id": "l", "parent_version": "v000000", "version": "v000001", "created_us": 1,
    "trajectories": [], "rewards": {}, "as_of_us": 1,
}  # fmt: skip
_ERASURE = {"tenant": OWN_TENANT, "scope": "trajectory", "target": NAME, "reason": "asked", "dry_run": True}
_HOLD = {"tenant": OWN_TENANT, "scope": "session", "target": NAME, "reason": "a case"}
_RETENTION = {"tenant": OWN_TENANT, "name": "short", "days": 9, "reason": "policy", "agent": NAME}
_GAP = {"gap_id": "g", "tenant": NAME, "agent": "triage", "key_id": "k", "reason": "r", "num_calls": 1, "first_us": 1, "last_us": 2}

_VAULT = {"tenant": OWN_TENANT, "days": 1, "reason": "x"}
_DECISION = "/v1/vault/approvals/{approval_id}/{action}"
_MISSED = {"verdict": "missed", "value": "EMP-12345", "kind": "EMPLOYEE_ID"}

DATA_PROXY = (
    Attempt("GET", f"/v1/events/{NAME}", "reviewer", (EVENT, TRAJECTORY), route="/v1/events/{event_id}"),
    Attempt("GET", f"/v1/events/{NAME}", "agent", (EVENT,), route="/v1/events/{event_id}"),
    Attempt("GET", f"/v1/events?session={NAME}", "reviewer", (SESSION,), route="/v1/events"),
    Attempt("GET", f"/v1/events?session={NAME}&kind=model_call", "agent", (SESSION,), route="/v1/events"),
    Attempt("GET", f"/v1/trajectories/{NAME}", "reviewer", (TRAJECTORY, EVENT), route="/v1/trajectories/{trajectory_id}"),
    Attempt("GET", f'/v1/trajectories?query={{"session":"{NAME}"}}', "reviewer", (SESSION,), route="/v1/trajectories"),
    Attempt("GET", f'/v1/trajectories?query={{"text":"{NAME}"}}', "admin", (TRAJECTORY,), route="/v1/trajectories"),
    Attempt("GET", "/v1/quarantine", "reviewer"),
    Attempt("GET", f"/v1/export/events?session={NAME}", "reviewer", (SESSION,), route="/v1/export/events"),
    Attempt("GET", f"/v1/export/events?agent={NAME}", "admin", (AGENT,), route="/v1/export/events"),
    Attempt("GET", f"/v1/export/trajectories?session={NAME}", "agent", (SESSION,), route="/v1/export/trajectories"),
    Attempt("GET", f"/v1/export/trajectories?agent={NAME}", "reviewer", (AGENT,), route="/v1/export/trajectories"),
    Attempt("GET", "/v1/stats/rewards", "reviewer"),
    Attempt("POST", "/v1/feedback", "agent", TARGETS, {"target": NAME, "value": 1.0}),
    Attempt("POST", "/v1/feedback", "admin", TARGETS, {"target": NAME, "correction": "better"}),
    Attempt("POST", "/v1/feedback", "reviewer", (REWARD,), {"target": "{own}", "value": 1.0, "supersedes": NAME}),
    Attempt(
        "POST", "/v1/feedback", "agent", TARGETS, [{"target": NAME, "value": 1.0}, {"target": NAME, "value": 1.0, "choice": 0}]
    ),
    Attempt("GET", "/v1/feedback/dead", "reviewer"),
    Attempt("POST", f"/v1/feedback/dead/{NAME}/retry", "admin", (REWARD,), route="/v1/feedback/dead/{letter_id}/retry"),
    Attempt("GET", "/v1/agents", "reviewer"),
    Attempt("POST", "/v1/agents", "admin", (TENANT,), {"tenant": NAME, "agent": "triage", "settle_s": 1}),
    Attempt("POST", "/v1/events", "agent", (EVENT,), _event(event_id=NAME), claims=True),
    Attempt("POST", "/v1/events", "agent", (EVENT,), _event(parent_id=NAME)),
    Attempt("POST", "/v1/events", "admin", (TRAJECTORY,), _event(trajectory_id=NAME), claims=True),
    Attempt("POST", "/v1/events", "agent", (SESSION,), _event(session_id=NAME), claims=True),
    Attempt("POST", "/v1/events", "admin", (TENANT,), _event(tenant=NAME)),
    Attempt("POST", "/v1/traces", "agent", (SESSION,), _spans("gen_ai.conversation.id"), claims=True),
    Attempt("POST", "/v1/traces", "agent", (TENANT,), _spans("tenant")),
    Attempt("POST", "/v1/leases", "trainer", (TENANT,), _LEASE | {"tenant": NAME}),
    Attempt("POST", "/v1/leases", "trainer", (AGENT,), _LEASE | {"agent": NAME}),
    Attempt("POST", f"/v1/leases/{NAME}/renew", "trainer", (LEASE,), {"ttl_s": 60}, route="/v1/leases/{lease_id}/renew"),
    Attempt("POST", f"/v1/leases/{NAME}/ack", "trainer", (LEASE,), {"outcome": "abandoned"}, route="/v1/leases/{lease_id}/ack"),
    Attempt("GET", f"/v1/batches/{NAME}", "reviewer", (BATCH,), route="/v1/batches/{batch_id}"),
    Attempt("GET", f"/v1/batches/{NAME}/rebuilt", "reviewer", (BATCH,), route="/v1/batches/{batch_id}/rebuilt"),
    Attempt("POST", "/v1/batches", "trainer", (BATCH,), _MANIFEST, claims=True),
    Attempt("GET", "/v1/versions", "reviewer"),
    Attempt("GET", "/v1/versions/serving", "reviewer"),
    Attempt("GET", "/v1/versions/v000000", "trainer", route="/v1/versions/{name}"),
    Attempt("POST", "/v1/versions", "trainer", (), _VERSION),
    Attempt("GET", "/v1/version-orders", "reviewer"),
    Attempt("POST", "/v1/version-orders", "trainer", (), _ORDER),
    Attempt("POST", "/v1/version-orders/o1/withdraw", "admin", (), {"said": ""}, route="/v1/version-orders/{order_id}/{step}"),
    Attempt("GET", "/v1/status", "admin"),
    Attempt("GET", "/v1/audit/verify", "reviewer"),
    Attempt("GET", f"/v1/audit/log?target={NAME}", "reviewer", (EVENT, TRAJECTORY), route="/v1/audit/log", claims=True),
    Attempt("GET", f"/v1/audit/log?reader={NAME}", "reviewer", (KEY,), route="/v1/audit/log", claims=True),
    Attempt("GET", f"/v1/audit/search?text={NAME}", "reviewer", (AGENT,), route="/v1/audit/search"),
    Attempt("GET", f"/v1/audit/search?text=more&session={NAME}", "reviewer", (SESSION,), route="/v1/audit/search"),
    Attempt("GET", f"/v1/audit/export?tenant={NAME}", "reviewer", (TENANT,), route="/v1/audit/export"),
    Attempt("POST", "/v1/erasure", "admin", (TRAJECTORY,), _ERASURE),
    Attempt("POST", "/v1/erasure", "admin", (SESSION,), _ERASURE | {"scope": "session", "dry_run": False}),
    Attempt("POST", "/v1/erasure", "admin", (TENANT,), _ERASURE | {"tenant": NAME, "target": "x"}),
    Attempt("GET", "/v1/holds?released=true", "reviewer", route="/v1/holds"),
    Attempt("POST", "/v1/holds", "reviewer", (SESSION,), _HOLD),
    Attempt("POST", "/v1/holds", "admin", (TRAJECTORY,), _HOLD | {"scope": "trajectory"}),
    Attempt("POST", "/v1/holds", "admin", (AGENT,), _HOLD | {"scope": "agent"}),
    Attempt("POST", "/v1/holds", "admin", (TENANT,), _HOLD | {"tenant": NAME, "scope": "tenant", "target": ""}),
    Attempt("POST", f"/v1/holds/{NAME}/release", "admin", (HOLD,), {"reason": "over"}, route="/v1/holds/{hold_id}/release"),
    Attempt("GET", "/v1/retention", "reviewer"),
    Attempt("POST", "/v1/retention", "admin", (AGENT,), _RETENTION),
    Attempt("POST", "/v1/retention", "admin", (TENANT,), _RETENTION | {"tenant": NAME, "agent": ""}),
    Attempt("GET", "/v1/tenants", "admin"),
    Attempt("GET", f"/v1/tenants/{NAME}/export", "admin", (TENANT,), route="/v1/tenants/{tenant}/export"),
    Attempt("POST", "/v1/tenants/import", "admin", (), {"no": "tar"}),
    Attempt("GET", "/v1/keys", "admin"),
    Attempt("GET", "/v1/keys/table", "gateway"),
    Attempt("POST", "/v1/keys", "admin", (TENANT,), {"tenant": NAME, "agent": "a", "role": "agent"}),
    Attempt("DELETE", f"/v1/keys/{NAME}", "admin", (KEY,), route="/v1/keys/{key_id}"),
    Attempt("PUT", f"/v1/keys/{NAME}/limits", "admin", (KEY,), {"budget_tokens": 1}, route="/v1/keys/{key_id}/limits"),
    Attempt("GET", "/v1/consent", "reviewer"),
    Attempt("POST", "/v1/consent", "admin", (TENANT,), {"tenant": NAME, "recording": False, "training": False, "reason": "x"}),
    Attempt("GET", "/v1/recording", "reviewer"),
    Attempt("POST", "/v1/recording", "admin", (TENANT,), {"tenant": NAME, "unrecorded": True, "reason": "x"}),
    Attempt("GET", "/v1/quarantine", "reviewer"),
    Attempt("GET", f"/v1/quarantine/{NAME}", "admin", (EVENT,), route="/v1/quarantine/{event_id}"),
    Attempt("POST", "/v1/quarantine/retry", "admin", (EVENT,), {"event_ids": [NAME]}),
    Attempt("GET", f"/v1/redaction?tenant={NAME}", "reviewer", (TENANT,), route="/v1/redaction"),
    Attempt("PUT", "/v1/redaction", "admin", (TENANT,), {"tenant": NAME, "policy": {}, "reason": "x"}),
    Attempt("POST", "/v1/redaction/test", "admin", (TENANT,), {"tenant": NAME, "text": "x"}),
    Attempt("GET", "/v1/alarms", "reviewer"),
    Attempt("GET", "/v1/metrics", "trainer"),
    Attempt("GET", "/v1/views", "reviewer"),
    Attempt("POST", "/v1/views", "reviewer", (SESSION,), {"title": "mine", "query": {"session": NAME}}, claims=True),
    Attempt("DELETE", f"/v1/views/{NAME}", "reviewer", (VIEW,), route="/v1/views/{view_id}"),
    Attempt("POST", "/v1/gaps", "gateway", (TENANT,), [_GAP]),
    Attempt("GET", "/v1/vault/approvals", "reviewer"),
    Attempt("POST", "/v1/vault/approvals", "admin", (TENANT,), _VAULT | {"tenant": NAME}),
    Attempt("POST", "/v1/vault/approvals", "reviewer", (AGENT,), _VAULT | {"agent": NAME}),
    Attempt("POST", f"/v1/vault/approvals/{NAME}/approve", "admin", (APPROVAL,), {"reason": "x"}, route=_DECISION),
    Attempt("POST", f"/v1/vault/approvals/{NAME}/revoke", "reviewer", (APPROVAL,), {"reason": "x"}, route=_DECISION),
    Attempt("GET", "/v1/review?why=sample", "reviewer", route="/v1/review"),
    Attempt("GET", f"/v1/review?after={NAME}", "reviewer", (EVENT,), route="/v1/review"),
    Attempt("POST", f"/v1/review/{NAME}", "reviewer", (EVENT,), {"verdict": "right"}, route="/v1/review/{event_id}"),
    Attempt("POST", f"/v1/review/{NAME}", "admin", (EVENT,), _MISSED, route="/v1/review/{event_id}"),
    Attempt("POST", "/v1/pseudonyms", "gateway", (TENANT,), {"tenant": NAME, "session_id": "s", "body": "{}"}),
    Attempt("GET", f"/v1/audit/witness?tenant={NAME}", "reviewer", (TENANT,), route="/v1/audit/witness"),
    Attempt("POST", "/v1/audit/witness", "reviewer", (TENANT,), {"tenant": NAME, "key": "k", "line": "l"}),
)

_CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
_GOES_ON = {"model": "tiny", "input": "hi", "previous_response_id": NAME}
_SESSION = {"x-headrace-session": NAME}
_WORKER = {"url": "http://127.0.0.1:9", "lane": "canary"}

GATEWAY = (
    Attempt("GET", f"/v1/responses/{NAME}", "agent", (RESPONSE, COMPLETION), route="/v1/responses/{response_id}"),
    Attempt("DELETE", f"/v1/responses/{NAME}", "agent", (RESPONSE, COMPLETION), route="/v1/responses/{response_id}"),
    Attempt("POST", f"/v1/responses/{NAME}/cancel", "agent", (RESPONSE,), route="/v1/responses/{response_id}/cancel"),
    Attempt("POST", "/v1/responses", "agent", (RESPONSE, COMPLETION), _GOES_ON),
    Attempt("POST", "/v1/chat/completions", "agent", (SESSION,), _CHAT, _SESSION, claims=True),
    Attempt("POST", f"/s/{NAME}/v1/chat/completions", "agent", (SESSION,), _CHAT, route="/v1/chat/completions", claims=True),
    Attempt("POST", "/v1/completions", "agent", (SESSION,), {"model": "tiny", "prompt": "hi"}, _SESSION, claims=True),
    Attempt("POST", "/v1/messages", "agent", (SESSION,), _CHAT | {"max_tokens": 9}, _SESSION, claims=True),
    Attempt("POST", "/v1/messages/count_tokens", "agent", (SESSION,), _CHAT, _SESSION),
    Attempt("POST", "/v1/embeddings", "agent", (SESSION,), {"model": "tiny", "input": "hi"}, _SESSION),
    Attempt("GET", "/v1/models", "agent"),
    Attempt("GET", f"/v1/models/{NAME}", "agent", (EVENT, KEY), route="/v1/models/{model}"),
    Attempt("POST", "/v1/feedback", "agent", (*TARGETS, RESPONSE), {"target": NAME, "value": 1.0}),
    Attempt("POST", "/feedback", "reviewer", TARGETS, {"target": NAME, "label": "good"}),
    Attempt("POST", "/v1/events", "agent", (EVENT,), _event(event_id=NAME), claims=True),
    Attempt("POST", "/v1/events", "agent", (EVENT,), _event(parent_id=NAME)),
    Attempt("POST", "/v1/traces", "agent", (TENANT,), _spans("tenant")),
    Attempt("POST", f"/mcp/{NAME}", "agent", (AGENT,), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, route="/mcp/{name}"),
    Attempt("GET", f"/mcp/{NAME}", "agent", (AGENT,), route="/mcp/{name}"),
    Attempt("DELETE", f"/mcp/{NAME}", "agent", (AGENT,), route="/mcp/{name}"),
    Attempt("GET", "/v1/workers", "admin"),
    Attempt("POST", "/v1/workers", "admin", (), _WORKER),
    Attempt("DELETE", "/v1/workers/w1", "admin", route="/v1/workers/{worker_id}"),
    Attempt("POST", "/v1/workers/w1/drain", "admin", route="/v1/workers/{worker_id}/drain"),
    Attempt("DELETE", "/v1/workers/w1/drain", "admin", route="/v1/workers/{worker_id}/drain"),
    Attempt("PUT", "/v1/workers/w1/out", "admin", (), {"reason": "x"}, route="/v1/workers/{worker_id}/out"),
    Attempt("DELETE", "/v1/workers/w1/out", "admin", route="/v1/workers/{worker_id}/out"),
    Attempt("PUT", "/v1/workers/w1/proof", "admin", (), {"instance": "i"}, route="/v1/workers/{worker_id}/proof"),
    Attempt("PUT", "/v1/workers/w1/lane", "admin", (), {"lane": "canary"}, route="/v1/workers/{worker_id}/lane"),
    Attempt("PUT", "/v1/lanes", "admin", (), {"canary_per_mille": 1}),
    Attempt("GET", "/metrics", "agent"),
    Attempt("GET", "/ready", "agent"),
    Attempt("GET", "/health", "agent"),
    Attempt("GET", "/openapi.json", "agent"),
)
