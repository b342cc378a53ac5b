"""Which tenants and agents there are: those that have a key, or have been recorded. A slip of the pen is neither."""

from difflib import get_close_matches

from sqlalchemy import Connection, select, union

from dataproxy.errors import NotFound
from dataproxy.store.schema import agent, api_key, consent, session, tenant


def require_known(connection: Connection, owner: str, name: str = "") -> None:
    """Let only a known tenant pass, and of it only a known agent ("": any).

    Raises:
        NotFound: with those that there are.
    """
    tenants = union(select(tenant.c.tenant), select(api_key.c.tenant), select(consent.c.tenant))
    _require(owner, "tenant", set(connection.execute(tenants).scalars()) - {""})
    if name:
        recorded, keyed = (
            select(agent.c.agent).where(agent.c.tenant == owner),
            select(api_key.c.agent).where(api_key.c.tenant == owner),
        )
        _require(name, f"agent of tenant {owner}", set(connection.execute(union(recorded, keyed)).scalars()) - {""})


def agent_of_session(connection: Connection, owner: str, session_id: str) -> str:
    """The agent that a stored session is of."""
    where = (session.c.tenant == owner, session.c.session_id == session_id)
    return str(connection.execute(select(session.c.agent).where(*where)).scalar_one())


def _require(given: str, what: str, known: set[str]) -> None:
    if given in known:
        return
    near = get_close_matches(given, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known)[:20])}" if known else "there is none yet"
    raise NotFound(f"no {what} is called {given!r}; {hint}")
