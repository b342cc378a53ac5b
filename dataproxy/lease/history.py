"""What a past batch was trained on, rebuilt: rewards are events of their own, so what was known at a lease can be told for ever."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from atdp.rewards import effective_reward
from dataproxy.errors import NotFound
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import lease


def rewards_as_trained(connection: Connection, tenant: str, lease_id: str, trajectory_ids: Sequence[str]) -> dict[str, float]:
    """Trajectory → its effective reward at the moment of the lease; without those that had none then.

    Raises:
        NotFound: no such lease.
    """
    granted_us = connection.execute(select(lease.c.created_us).where(lease.c.lease_id == lease_id)).scalar()
    if granted_us is None:
        raise NotFound(f"no lease {lease_id}")
    given = rewards_of(connection, tenant, trajectory_ids)
    effective = {name: effective_reward(given.get(name, []), granted_us) for name in trajectory_ids}
    return {name: value for name, value in effective.items() if value is not None}
