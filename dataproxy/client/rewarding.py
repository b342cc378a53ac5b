"""The client of rewards: feedback in batches, dead letters, agents' rules. It blocks; close it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from dataproxy.client.calls import Call
from dataproxy.client.reward_types import AgentChange, AgentRule, DeadLetter, FeedbackOutcome, FeedbackReceipts, Retried
from dataproxy.client.sync_client import SyncDataProxyClient
from dataproxy.client.types import Feedback


class RewardClient(SyncDataProxyClient):
    """What ``SyncDataProxyClient`` can, and what tuning rewards needs. Each method may raise DataProxyClientError."""

    def feedback_batch(self, items: Sequence[Feedback]) -> list[FeedbackOutcome]:
        """Give many at once; each is taken or refused by itself."""
        receipts: FeedbackReceipts = self._send(_call("POST", "/v1/feedback", FeedbackReceipts, list(items)))
        return receipts.outcomes

    def list_dead(self, limit: int = 100) -> list[DeadLetter]:
        """Rewards that waited in vain for their exchange, oldest first."""
        letters: list[DeadLetter] = self._send(_call("GET", f"/v1/feedback/dead?limit={limit}", list[DeadLetter]))
        return letters

    def retry_dead(self, letter_id: str) -> Retried:
        """Try one again."""
        retried: Retried = self._send(_call("POST", f"/v1/feedback/dead/{letter_id}/retry", Retried))
        return retried

    def list_agents(self) -> list[AgentRule]:
        """Every agent's rules, defaults shown."""
        rules: list[AgentRule] = self._send(_call("GET", "/v1/agents", list[AgentRule]))
        return rules

    def set_agent(self, change: AgentChange) -> AgentRule:
        """Change an agent's rules; gives them as they hold now."""
        rule: AgentRule = self._send(_call("POST", "/v1/agents", AgentRule, change))
        return rule


def _call(method: str, path: str, type_: Any, body: object = None) -> Call[Any]:
    return Call(method, path, msgspec.json.Decoder(type_).decode, msgspec.json.encode(body) if body is not None else None)
