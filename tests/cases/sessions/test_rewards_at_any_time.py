"""Rewards come when they come: all are kept, in order, and each has its effect by rule, never on what was taken before it."""

from pathlib import Path

from atdp.rewards import effective_reward
from atdp.samples import Lease
from dataproxy.client import RewardClient
from dataproxy.client.exporting import ExportQuery
from dataproxy.client.reward_types import AgentChange
from dataproxy.client.types import Feedback, LeaseAck, LeaseRequest
from dataproxy.lease.history import rewards_as_trained
from tests.cases.lent import store
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user
from tests.dataproxy.proxy import Proxy

TERMS = {"ttl_s": 60.0, "version_now": "v000000", "max_staleness": 1}


async def test_rewards_before_storage_twice_after_close_after_export_and_after_training_are_all_kept_in_order(
    proxy: Proxy, tmp_path: Path
) -> None:
    asked, got = exchange([user("q")], prompt=[1, 2], session="s", started_us=proxy.clock(), ended_us=proxy.clock())
    name = f"tr-{asked.event_id}"
    with serve(proxy.services, tmp_path / "s") as path, RewardClient(path, proxy.files.api_key("admin")) as client:
        agents = proxy.key("agent")

        def give(value: float, name: str = "reward") -> str:
            proxy.clock.advance(1)
            return client.feedback(Feedback(asked.completion_id, value, name=name), agents).status

        def exported() -> tuple[list[float | None], float | None]:
            with client.export_trajectories(ExportQuery()) as export:
                [one] = export.items
            return [reward.value for reward in one.rewards], one.reward

        def lease(max_reuse: int) -> Lease:
            proxy.clock.advance(60)
            return client.lease(LeaseRequest(max_trajectories=9, max_reuse=max_reuse, **TERMS))  # type: ignore[arg-type]

        assert give(0.1) == "pending", "its exchange is not stored"
        await store(proxy, (asked, got))
        client.set_agent(AgentChange("acme", "triage", terminal="resolved"))
        assert give(0.2) == "stored", "a second one for the same turn"
        assert exported() == ([0.1, 0.2], 0.2)
        assert give(1.0, "resolved") == "stored", "it closes"
        assert give(0.3) == "stored", "after its close"
        assert exported() == ([0.1, 0.2, 1.0, 0.3], 1.3)
        assert give(0.4) == "stored", "after its export"

        first = lease(max_reuse=2)
        assert [sample.reward for sample in first.samples] == [1.4]
        client.ack_lease(first.lease_id, LeaseAck("trained", version="v000001", trained=[name]))
        assert give(-1.0) == "stored", "after it was trained on"
        again = lease(max_reuse=2)
        assert [sample.reward for sample in again.samples] == [0.0], "what came late counts at the next use"
        kept = again.samples[0].rewards
    assert [reward.value for reward in kept] == [0.1, 0.2, 1.0, 0.3, 0.4, -1.0]
    assert [effective_reward(kept, reward.received_us) for reward in kept] == [0.1, 0.2, 1.2, 1.3, 1.4, 0.0]
    with proxy.services.database.read() as connection:
        assert rewards_as_trained(connection, "acme", first.lease_id, [name]) == {name: 1.4}, "what was trained is what it was"
