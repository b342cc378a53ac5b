"""Taking the trajectories that a list shows along, as JSON lines or Parquet: all pages of it, a page in memory at a time."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from sqlalchemy import select

from atdp.exports.parquet_rows import row_of, schema_of
from atdp.exports.types import ExportedTrajectory
from dataproxy.api.answers import attachment
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.api.trajectory_routes import session_names
from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.console.filters import Filters, asked, query_of
from dataproxy.console.seat import Seat, ServicesDep
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.exporting import exported_named
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import trajectory
from dataproxy.store.scope import Scope, current_scope
from dataproxy.store.statistics import redacted_kinds
from dataproxy.store.trajectories import list_trajectories

router = APIRouter()
_PAGE, _PIECE = 50, 1 << 20


@router.get("/exports/{form}")
def get_export(services: ServicesDep, seat: Seat, form: str, given: Annotated[Filters, Depends()]) -> StreamingResponse:
    """The filtered trajectories with their events, tokens and rewards, newest first; on record before the first byte."""
    require(seat.caller, "reviewer")
    if form not in ("jsonl", "parquet"):
        raise Refused("an export is `jsonl` or `parquet`")
    if form == "parquet":
        pyarrow()  # before anything is put on record
    fields = asked(asdict(given))
    tenant = scope(seat.caller)
    with services.database.read() as connection:
        query = query_of(fields, redacted_kinds(connection, tenant))
        owners = list(connection.execute(select(trajectory.c.tenant).distinct()).scalars()) if tenant is None else [tenant]
    asked_for = msgspec.json.encode(query).decode()
    put_on_record(services, seat.caller, owners or [seat.caller.tenant], "export of trajectories", asked_for, seat.purpose)
    items = exported_named(services.database, current_scope(), _names(services, current_scope(), tenant, query))
    lines = (msgspec.json.encode(item) + b"\n" for item in items) if form == "jsonl" else _parquet(items)
    kind = "application/x-ndjson" if form == "jsonl" else "application/vnd.apache.parquet"
    narrowed = _narrowed(services, tenant, fields, asked_for)
    headers = attachment("trajectories", tenant or "all-tenants", *narrowed, ending=form, at_us=services.now_us())
    return StreamingResponse(lines, media_type=kind, headers=headers)


def _narrowed(services: Services, tenant: str | None, fields: Mapping[str, str], asked_for: str) -> list[str]:
    """What a file's name says of its filters: which they are, and a digest of what they ask for, which may name people."""
    digest = services.digests(tenant or OPERATOR).of(b"export filters", asked_for.encode()).hex()[:8]
    return ["-".join(("filtered-by", *fields)), digest] if fields else []


def pyarrow() -> Any:
    """The module that writes Parquet.

    Raises:
        Refused: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Refused("Parquet needs pyarrow where the data proxy runs: pip install 'headrace[parquet]'") from error
    return pyarrow


def _names(services: Services, whose: Scope, tenant: str | None, query: TrajectoryQuery) -> Iterator[tuple[str, str]]:
    """(tenant, id) of all that ``query`` finds, however many pages that takes."""
    after: str | None = ""
    while after is not None:
        with services.database.read(whose) as connection:
            sessions = session_names(services, tenant, query.session)
            page = list_trajectories(connection, tenant, query, sessions, after, _PAGE)
        yield from ((row.tenant, row.trajectory_id) for row in page.rows)
        after = page.next_after


def _parquet(items: Iterator[ExportedTrajectory]) -> Iterator[bytes]:
    """An event a row, a trajectory a row group; written to a file that nobody can name, then sent."""
    arrow = pyarrow()
    schema = schema_of(arrow).append(arrow.field("reward", arrow.float64()))
    with tempfile.TemporaryFile() as file:
        with arrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for item in items:
                rows = [row_of(one) | {"reward": item.reward} for one in item.events]
                writer.write_table(arrow.Table.from_pylist(rows, schema))
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
