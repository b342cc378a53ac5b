"""Granting, renewing and ending leases, each inside one write transaction of the caller's. Time is an argument.

A trainer that dies simply lets its deadline pass: what it held is free at the next grant. An ack that comes after the deadline is
still taken, because what was trained was trained.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select, update

from atdp.ids import new_event_id
from atdp.samples import Lease, TrainSample
from atdp.versions import version_index
from dataproxy.client.types import LeaseAck, LeaseRequest
from dataproxy.errors import NotFound, Refused
from dataproxy.lease.candidates import Candidate, Terms, count_left_out, find_attempts, find_candidates, terms_of
from dataproxy.lease.samples import build_samples
from dataproxy.lease.windows import reward_by_deadline
from dataproxy.ledger.rows import append_rows
from dataproxy.store.consents import ConsentBook
from dataproxy.store.dialect import insert_all
from dataproxy.store.schema import lease, lease_item, training_use, trajectory
from dataproxy.vault.lend import Lending

_MOST_LEFT_OUT = 1000
_MOST_PREVIEWED = 100_000
"""Rewarded trajectories among which those that are left out are counted: a trainer asks every second, a person now and then."""


def grant_lease(
    connection: Connection,
    request: LeaseRequest,
    holder: str,
    key_id: str,
    tenant: str | None,
    now_us: int,
    settle_s: float,
    vault: Lending | None = None,
) -> Lease:
    """Lend up to ``max_trajectories``, and the rest of the last one's group; fewer than ``min_trajectories`` ready lends none.

    ``tenant`` None: of all tenants.

    A preview shows what would be lent, rewards that a deadline would bring apart, and changes nothing. Raw tokens go along as far
    as ``vault`` may lend them.

    Raises:
        InvalidVersion: ``version_now`` is no policy version's name.
    """
    terms = terms_of(request, tenant, version_index(request.version_now), now_us, settle_s)
    if not request.preview:
        expire_leases(connection, now_us)
        reward_by_deadline(connection, terms.now, tenant)
    samples, skipped = _collect(connection, terms, request.max_trajectories, None if request.preview else vault)
    for reason, count in count_left_out(connection, terms, _MOST_PREVIEWED if request.preview else _MOST_LEFT_OUT).items():
        skipped[reason] = skipped.get(reason, 0) + count
    if request.preview:
        return Lease("", now_us, samples, skipped, as_of_us=now_us)
    if len(samples) < max(request.min_trajectories, 1):
        samples = []
    lease_id, deadline_us = f"lease-{new_event_id()}", now_us + int(request.ttl_s * 1e6)
    if samples and vault is not None:
        samples = vault.hand_over(connection, samples, lease_id)
    if samples:
        _write(connection, lease_id, holder, key_id, now_us, deadline_us, samples)
    return Lease(lease_id, deadline_us, samples, skipped, as_of_us=now_us)


def _collect(connection: Connection, terms: Terms, wanted: int, vault: Lending | None) -> tuple[list[TrainSample], dict[str, int]]:
    """Up to ``wanted`` samples, groups whole, and the candidates passed over on the way, by reason."""
    consents = ConsentBook.read(connection)
    samples: list[TrainSample] = []
    skipped: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    candidates = (one for one in find_candidates(connection, terms) if (one.tenant, one.trajectory_id) not in seen)
    while len(samples) < wanted and (chunk := _with_groups(connection, terms, candidates, wanted - len(samples), wanted, seen)):
        allowed = [item for item in chunk if consents.may_train(item.tenant, item.agent, item.session_id)]
        built, reasons = build_samples(connection, allowed, terms.oldest_version, vault)
        samples.extend(built)
        if len(allowed) < len(chunk):
            reasons["no_consent"] = len(chunk) - len(allowed)
        for reason, count in reasons.items():
            skipped[reason] = skipped.get(reason, 0) + count
    return samples, skipped


def _with_groups(
    connection: Connection, terms: Terms, candidates: Iterator[Candidate], num: int, most: int, seen: set[tuple[str, str]]
) -> list[Candidate]:
    """The next ``num`` candidates, or more: what is of one group is lent together, up to ``most`` of it. They are ``seen`` then."""
    found: list[Candidate] = []
    while len(found) < num and (one := next(candidates, None)) is not None:
        attempts = find_attempts(connection, terms, one, most) if one.group else [one]
        seen.update((item.tenant, item.trajectory_id) for item in attempts)
        found += attempts
    return found


def _write(
    connection: Connection, lease_id: str, holder: str, key_id: str, now_us: int, deadline_us: int, samples: Sequence[TrainSample]
) -> None:
    row = {"tenant": holder, "lease_id": lease_id, "key_id": key_id, "state": "open"}
    connection.execute(lease.insert().values(**row, created_us=now_us, deadline_us=deadline_us))
    items = [{"tenant": s.tenant, "trajectory_id": s.trajectory_id, "vaulted": bool(s.vault_key)} for s in samples]
    items = [item | {"lease_id": lease_id, "held": True} for item in items]
    connection.execute(lease_item.insert(), items)
    for sample in samples:  # a later call of the conversation opens another trajectory
        where = (trajectory.c.tenant == sample.tenant, trajectory.c.trajectory_id == sample.trajectory_id)
        connection.execute(update(trajectory).where(*where).values(closed=True))


def expire_leases(connection: Connection, now_us: int) -> None:
    """Free what is held past its deadline."""
    late = select(lease.c.lease_id).where(lease.c.state == "open", lease.c.deadline_us < now_us)
    ids = list(connection.execute(late).scalars())
    if ids:
        _release(connection, ids, "expired")


def renew_lease(connection: Connection, holder: str, lease_id: str, ttl_s: float, now_us: int) -> int:
    """Move the deadline to ``ttl_s`` from now; gives it, UTC µs.

    Raises:
        NotFound: ``holder`` has no such lease.
        Refused: it has ended; its trajectories may be lent to somebody else.
    """
    expire_leases(connection, now_us)
    if _state(connection, holder, lease_id) != "open":
        raise Refused(f"lease {lease_id} has ended; take a new one")
    deadline_us = now_us + int(ttl_s * 1e6)
    connection.execute(update(lease).where(lease.c.lease_id == lease_id).values(deadline_us=deadline_us))
    return deadline_us


def ack_lease(connection: Connection, holder: str, lease_id: str, ack: LeaseAck, now_us: int) -> None:
    """End a lease. What was trained is on record with the version that learned from it; the rest is free again. May be repeated.

    Raises:
        NotFound: ``holder`` has no such lease.
        Refused: trained trajectories without a version, or some that the lease does not hold.
    """
    state = _state(connection, holder, lease_id)
    if ack.outcome == "trained":
        _record_use(connection, lease_id, ack, now_us)
    for trajectory_id, reason in ack.skipped.items():
        where = (lease_item.c.lease_id == lease_id, lease_item.c.trajectory_id == trajectory_id)
        connection.execute(update(lease_item).where(*where).values(outcome=reason[:128]))
    if state == "open":
        _release(connection, [lease_id], ack.outcome)


def _record_use(connection: Connection, lease_id: str, ack: LeaseAck, now_us: int) -> None:
    if ack.version is None or not ack.trained:
        raise Refused("an ack of outcome trained names the version and the trajectories that it learned from")
    version_index(ack.version)
    columns = (lease_item.c.trajectory_id, lease_item.c.tenant, lease_item.c.vaulted)
    held = {row.trajectory_id: row for row in connection.execute(select(*columns).where(lease_item.c.lease_id == lease_id))}
    if foreign := [trajectory_id for trajectory_id in ack.trained if trajectory_id not in held]:
        raise Refused(f"lease {lease_id} does not hold {foreign[0]}; ack each lease with its own trajectories")
    used = select(training_use.c.trajectory_id).where(training_use.c.version == ack.version)
    known = set(connection.execute(used).scalars())
    uses = []
    for trajectory_id in dict.fromkeys(ack.trained):
        if trajectory_id in known:
            continue
        tenant = held[trajectory_id].tenant
        use = {"tenant": tenant, "trajectory_id": trajectory_id, "version": ack.version}
        uses.append(use | {"lease_id": lease_id, "used_us": now_us, "vaulted": bool(held[trajectory_id].vaulted)})
        where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id == trajectory_id)
        connection.execute(update(trajectory).where(*where).values(times_trained=trajectory.c.times_trained + 1))
        item = (lease_item.c.lease_id == lease_id, lease_item.c.trajectory_id == trajectory_id)
        connection.execute(update(lease_item).where(*item).values(outcome="trained"))
    insert_all(connection, training_use, uses)
    append_rows(connection, training_use, uses)


def _state(connection: Connection, holder: str, lease_id: str) -> str:
    where = (lease.c.tenant == holder, lease.c.lease_id == lease_id)
    state = connection.execute(select(lease.c.state).where(*where)).scalar()
    if state is None:
        raise NotFound(f"no lease {lease_id}")
    return str(state)


def _release(connection: Connection, lease_ids: list[str], state: str) -> None:
    connection.execute(update(lease).where(lease.c.lease_id.in_(lease_ids)).values(state=state))
    connection.execute(update(lease_item).where(lease_item.c.lease_id.in_(lease_ids)).values(held=False))
