"""Saved views: a reviewer's questions about trajectories under names, for everybody of the tenant. They may be taken away again."""

from collections.abc import Collection

import msgspec
from sqlalchemy import Connection, delete, func, select

from atdp.ids import new_event_id
from dataproxy.client.trajectory_types import SavedView, TrajectoryQuery
from dataproxy.errors import NotFound, Refused
from dataproxy.store.schema import saved_view

MOST_VIEWS = 100
"""Of one tenant."""


def add_view(connection: Connection, tenant: str, view: SavedView, key_id: str, now_us: int) -> SavedView:
    """Keep ``view``, its texts redacted, as ``tenant``'s.

    Raises:
        Refused: the tenant has as many as it may.
    """
    mine = select(func.count()).select_from(saved_view).where(saved_view.c.tenant == tenant)
    if connection.execute(mine).scalar_one() >= MOST_VIEWS:
        raise Refused(f"there are {MOST_VIEWS} saved views already; take one away first")
    kept = msgspec.structs.replace(view, view_id=f"view-{new_event_id()}", key_id=key_id, created_us=now_us)
    row = {"tenant": tenant, "view_id": kept.view_id, "title": kept.title, "key_id": key_id, "created_us": now_us}
    connection.execute(saved_view.insert().values(row | {"query": msgspec.json.encode(kept.query).decode()}))
    return kept


def list_views(connection: Connection, tenant: str) -> list[SavedView]:
    """Those of ``tenant`` (""; the operator's own), by title."""
    rows = connection.execute(select(saved_view).where(saved_view.c.tenant == tenant).order_by(saved_view.c.title)).all()
    return [
        SavedView(row.title, msgspec.json.decode(row.query, type=TrajectoryQuery), row.view_id, row.key_id, row.created_us)
        for row in rows
    ]


def remove_view(connection: Connection, tenant: str, view_id: str) -> None:
    """Take one away.

    Raises:
        NotFound: the tenant has none of that id.
    """
    gone = connection.execute(delete(saved_view).where(saved_view.c.tenant == tenant, saved_view.c.view_id == view_id))
    if gone.rowcount == 0:
        raise NotFound(f"no saved view {view_id}")


def forget_sessions(connection: Connection, tenant: str, sessions: Collection[str]) -> None:
    """Take away the views that ask for one of ``sessions``, which are erased."""
    for view in list_views(connection, tenant):
        if view.query.session in sessions:
            remove_view(connection, tenant, view.view_id)
