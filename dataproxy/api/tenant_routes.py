"""A tenant as one file: out, for its admin; in, for an operator. Going out is a read, and on record before the first byte."""

import tempfile
from collections import Counter
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Caller, ServicesDep, require, require_operator, scope
from dataproxy.api.on_record import Purpose, put_list_on_record, put_on_record
from dataproxy.client.types import KeyInfo, TenantImported
from dataproxy.errors import NotFound
from dataproxy.retain.holds import list_holds
from dataproxy.services import Services
from dataproxy.store.access import record_access
from dataproxy.store.scope import EVERYBODY, current_scope
from dataproxy.store.tenants import list_tenants
from dataproxy.transfer.read import TenantFile, store_tenant
from dataproxy.transfer.write import count_rows, write_tenant

router = APIRouter(prefix="/v1/tenants")
COUNT_HEADER = "x-headrace-count"
"""How many rows will come, about: for progress bars."""


@router.get("")
def get_tenants(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Who is there; a tenant's admin sees its own."""
    require(caller)
    with services.database.read() as connection:
        holds = Counter(hold.tenant for hold in list_holds(connection, scope(caller)))
        tenants = list_tenants(connection, scope(caller), holds)
    put_list_on_record(services, caller, tenants, "tenants", purpose)
    return json_answer(tenants)


@router.get("/{tenant}/export")
def export_tenant(services: ServicesDep, caller: Caller, purpose: Purpose, tenant: str) -> Response:
    """The file of ``tenant``, as it is now."""
    require(caller)
    if scope(caller) not in (None, tenant):
        raise _unknown(tenant)
    with services.database.read() as connection:
        num_rows = count_rows(connection, tenant)
    if not num_rows:
        raise _unknown(tenant)
    put_on_record(services, caller, [tenant], "tenant export", tenant, purpose)
    lines = write_tenant(services.database, current_scope(), tenant, services.ledger_private, services.now_us())
    return StreamingResponse(lines, media_type="application/x-tar", headers={COUNT_HEADER: str(num_rows)})


@router.post("/import")
async def import_tenant(request: Request, services: ServicesDep, caller: Caller, signed_by: str = "") -> Response:
    """Store a tenant's file; ``signed_by`` is the ledger's public key (hex) of the store that it comes from, if it is another."""
    require(caller)
    require_operator(caller)
    with tempfile.TemporaryDirectory(prefix="import-", dir=services.data_dir) as directory:
        path = Path(directory) / "tenant.tar"
        with path.open("wb") as file:
            async for chunk in request.stream():
                await run_in_threadpool(file.write, chunk)
        return json_answer(await run_in_threadpool(_store, services, caller, path, signed_by))


def _store(services: Services, caller: KeyInfo, path: Path, signed_by: str) -> TenantImported:
    trusted = frozenset(key for key in (services.checkpoints.signer.verifier.public.hex(), signed_by.lower()) if key)
    file = TenantFile(path, trusted)
    try:
        with services.database.write(EVERYBODY) as connection:
            num_rows = store_tenant(connection, file, services.checkpoints.signer.verifier.public.hex())
            record_access(connection, caller, file.manifest.tenant, "tenant import", file.manifest.signer, services.now_us())
    finally:
        file.close()
    services.checkpoints.take_in()
    with services.database.read(EVERYBODY) as connection:
        services.keys.load(connection)
    return TenantImported(file.manifest.tenant, num_rows, file.manifest.signer)


def _unknown(tenant: str) -> NotFound:
    return NotFound(f"no tenant {tenant}")
