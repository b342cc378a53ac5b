"""Audits that run while somebody watches: one at a time a tenant, in a thread, and how far each is."""

import threading
from dataclasses import dataclass

from dataproxy.api.audit_routes import audit_steps
from dataproxy.client.review_types import AuditProgress, AuditReport
from dataproxy.services import Services
from dataproxy.store.scope import EVERYBODY, Scope, scoped


@dataclass(slots=True)
class Audit:
    """``report`` is None while it runs; ``broken``: it ended without one. ``done`` of ``total`` leaves are checked."""

    begun_us: int
    done: int = 0
    total: int = 0
    report: AuditReport | None = None
    ended_us: int | None = None
    broken: bool = False


class Audits:
    """The last one of each tenant."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._last: dict[str | None, Audit] = {}
        self._lock = threading.Lock()

    def last(self, tenant: str | None) -> Audit | None:
        """The audit of ``tenant`` (None: of all) that runs, or ran last."""
        return self._last.get(tenant)

    def begin(self, tenant: str | None) -> Audit:
        """Start one; while one runs, that is it."""
        with self._lock:
            last = self._last.get(tenant)
            if last is not None and last.ended_us is None:
                return last
            audit = self._last[tenant] = Audit(self._services.now_us())
            threading.Thread(target=self._run, args=(tenant, audit), name="console-audit", daemon=True).start()
            return audit

    def _run(self, tenant: str | None, audit: Audit) -> None:
        whose = EVERYBODY if tenant is None else Scope(tenant)
        try:
            with scoped(whose):
                for step in audit_steps(self._services, tenant, whose):
                    if isinstance(step, AuditProgress):
                        audit.done, audit.total = step.done, step.total
                    else:
                        audit.report = step
        finally:
            audit.broken = audit.report is None
            audit.ended_us = self._services.now_us()
