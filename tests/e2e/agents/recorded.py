"""What must be true of a conversation afterwards, whichever agent held it: recorded, exact, one trajectory, open to rewards.

The reference for tokens is the tests' own tap in the engine's scheduler process.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from atdp.events import Event
from atdp.ids import event_id_in
from dataproxy.client.types import Consent, EventDetail, Feedback, KeyLimits, NewKey
from deploy.launcher.readiness import wait_key_works
from deploy.launcher.running import RunningStack
from tests.e2e import oracle
from tests.engine_fixture import Tapped


@dataclass(frozen=True)
class Desk:
    """A running stack whose engine is tapped."""

    stack: RunningStack
    tap: Path

    def new_key(self, agent: str, requests_per_minute: int | None = None) -> str:
        """The key of a new agent, whose calls may be trained on."""
        limits = KeyLimits(requests_per_minute=requests_per_minute)
        with self.stack.client() as client:
            client.set_consent(Consent("acme", recording=True, training=True, reason="agents' test", agent=agent))
            key = client.create_key(NewKey("acme", agent, "agent", limits=limits)).key
        wait_key_works(self.stack.gateway, key)
        return key

    def num_running(self) -> int:
        """Requests that the engine holds."""
        loads = httpx.get(f"{self.stack.engine}/v1/loads", timeout=60).json()["loads"]
        return sum(int(one["num_running_reqs"]) + int(one["num_waiting_reqs"]) for one in loads)

    def tapped(self, completion_id: str) -> Tapped:
        """What the engine's scheduler had for one answer."""
        [one] = [line for line in self.all_tapped() if line.rid == completion_id]
        return one

    def all_tapped(self) -> list[Tapped]:
        """What it had for every answer."""
        return [Tapped(**json.loads(line)) for line in self.tap.read_text().splitlines()]

    def conversation(self, completion_ids: list[str], decisions: Sequence[str] = ()) -> list[Event]:
        """The events of a conversation, once stored; all that must hold of them is asserted.

        ``decisions`` say of each whether it may be trained on (if not given, all may): those under a grammar never are.
        """
        assert completion_ids and len(set(completion_ids)) == len(completion_ids)
        details = [self._stored(completion_id) for completion_id in completion_ids]
        events = [detail.event for detail in details]
        assert len({event.trajectory_id for event in events}) == 1, "the conversation fell apart"
        assert len({event.session_id for event in events}) == 1
        assert [event.seq for event in events] == list(range(len(events)))
        assert [event.parent_id for event in events] == [None, *(event.event_id for event in events[:-1])]
        for completion_id, detail in zip(completion_ids, details, strict=True):
            self._assert_exact(completion_id, detail)
        assert [detail.decisions for detail in details] == [{0: decision} for decision in decisions or ["eligible"] * len(details)]
        whole = [_ids(detail.tokens[0].prompt_ids) + _ids(detail.tokens[0].output_ids) for detail in details]
        for detail, before in zip(details[1:], whole, strict=False):
            assert _ids(detail.tokens[0].prompt_ids)[: len(before)] == before, "a turn does not extend the one before"
        return events

    def assert_rewards_reach(self, completion_id: str, key: str) -> None:
        """A reward by an answer's id, given with the agent's own key, becomes its trajectory's."""
        with self.stack.client() as client:
            receipt = client.feedback(Feedback(target=completion_id, value=0.75), key)
            assert receipt.status == "stored"
            trajectory_id = client.get_event(_event_id(completion_id)).event.trajectory_id
            assert client.get_trajectory(trajectory_id).reward == 0.75

    def _stored(self, completion_id: str) -> EventDetail:
        event_id = _event_id(completion_id)
        query = f"SELECT delivery FROM event WHERE event_id = '{event_id}'"
        oracle.until(lambda: bool(oracle.rows(self.stack, query)), f"storage of {completion_id}", self.stack)
        assert oracle.rows(self.stack, query) == [("complete",)]
        with self.stack.client() as client:
            return client.get_event(event_id)

    def _assert_exact(self, completion_id: str, detail: EventDetail) -> None:
        [record] = detail.tokens
        seen = self.tapped(completion_id)
        assert _ids(record.output_ids) == seen.output_ids and not any(record.output_altered)
        assert len(_ids(record.prompt_ids)) == len(seen.prompt_ids)
        for stored, sampled, altered in zip(_ids(record.prompt_ids), seen.prompt_ids, record.prompt_altered, strict=True):
            assert stored == sampled or altered  # a personal value in a system prompt is masked
        assert len(record.logprobs) == len(record.output_ids)


def _event_id(completion_id: str) -> str:
    event_id = event_id_in(completion_id)
    assert event_id is not None, f"{completion_id} is no id of ours"
    return event_id


def _ids(data: bytes) -> list[int]:
    return [int(number) for number in np.frombuffer(data, "<i4")]
