"""The hot routes, the POSTs that every dialect generates with, on raw ASGI: admission, then ``relay``.

Every answer carries ``x-headrace-event``; ``x-headrace-session`` too once the session is known. A route at the HTTP protocol's
level may replace this file: what it calls is independent of ASGI but for ``receive`` and ``send``.
"""

import asyncio

from atdp.ids import mint_completion_id, new_event_id
from gateway.answers import Receive, Scope, Send, send_error
from gateway.bodies import read_body, refuse_body
from gateway.call import Call
from gateway.dialects import Dialect
from gateway.errors import ClientLeft, Refused
from gateway.headers import credential, header
from gateway.keys import Identity
from gateway.parsing import AgentRequest, parse_request
from gateway.placement import holder, mark
from gateway.relay import Relay
from gateway.state import Gateway
from gateway.upstream.connection import Headers
from router.choose import choose
from router.workers import Health, Worker, served_models


class CallRoute:
    """Serves the calls of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send, url_session: str = "") -> None:
        """One call. ``url_session`` is the session that the path names, or empty."""
        task = asyncio.current_task()
        assert task is not None
        self._gateway.running.add(task)
        try:
            await self._serve(dialect, scope, receive, send, url_session)
        finally:
            self._gateway.running.discard(task)

    async def _serve(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send, url_session: str) -> None:
        event_id = new_event_id()
        metrics = self._gateway.metrics
        extra: Headers = [(b"x-headrace-event", event_id.encode())]
        try:
            call = await self._admit(dialect, scope, receive, event_id, url_session)
            extra = [(b"x-headrace-event", call.event_id.encode()), (b"x-headrace-session", call.session.session_id.encode())]
            status = await Relay(self._gateway, call, send, extra).run(receive)
        except Refused as refused:
            status = refused.status
            metrics.add("headrace_gateway_refused_total", "code", refused.code)
            if status in {408, 413, 415}:
                body = dialect.form.body(refused, event_id)
                await refuse_body(scope["headers"], receive, send, refused, body, extra, self._gateway.settings)
            else:
                await send_error(send, refused, dialect.form, event_id, extra)
        except ClientLeft:
            status = 499
        metrics.add("headrace_gateway_calls_total", "status", str(status))

    async def _admit(self, dialect: Dialect, scope: Scope, receive: Receive, event_id: str, url_session: str) -> Call:
        if scope["method"] != "POST":
            raise Refused(405, "method_not_allowed", "use POST for this path")
        gateway, headers = self._gateway, scope["headers"]
        identity = await gateway.keys.caller(credential(headers))
        length, encoding = header(headers, b"content-length"), header(headers, b"content-encoding")
        body = await read_body(receive, length, encoding, gateway.settings.max_body_bytes, gateway.settings.body_timeout_s)
        request = parse_request(body)
        self._check_model(identity, request)
        session = gateway.namer.name(identity.tenant, identity.key_id, url_session, headers, request, dialect)
        workers = self._choose(identity, session.affinity, request)
        if dialect.keeps_answers and workers:
            event_id = mark(event_id, workers[0].url)
        prefix = dialect.prefix
        completion_id = mint_completion_id(gateway.mac_secret, identity.tenant, event_id, prefix) if prefix else ""
        return Call(event_id, completion_id, identity, session, request, dialect, headers, workers)

    def _check_model(self, identity: Identity, request: AgentRequest) -> None:
        known = served_models(self._gateway.workers)
        if not known:
            raise Refused(503, "no_worker", "no inference worker has answered yet; try again shortly", retry_after_s=2)
        if request.model not in known or not identity.may_use(request.model):
            message = f"the model `{request.model[:100]}` does not exist or your key may not use it; GET /v1/models lists yours"
            raise Refused(404, "model_not_found", message, param="model")

    def _choose(self, identity: Identity, affinity: bytes, request: AgentRequest) -> list[Worker]:
        """The workers to try: the one that holds the answer that this call goes on from, and no other, where it names one."""
        if previous := request.text("previous_response_id"):
            worker = holder(self._gateway, identity.tenant, previous)
            return [] if worker.health is Health.DOWN else [worker]
        return choose(affinity, request.model, self._gateway.workers)
