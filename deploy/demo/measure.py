"""What the store says after an arm: versions and swaps, rewards by version, events, redactions, what may be trained on."""

import time
from collections.abc import Iterator

from atdp.versions import PolicyVersion, version_index
from dataproxy.client import SyncDataProxyClient
from dataproxy.client.trajectory_types import TrajectoryRow
from deploy.demo.plan import Answer, ArmResult, Share, Swap
from deploy.errors import DemoFailed
from deploy.launcher.running import RunningStack

_DRAIN_TIMEOUT_S = 60.0
_POLL_S = 0.25
_PAGE = 200
_EVENT_ID = slice(len("chatcmpl-"), len("chatcmpl-") + 32)


def num_swaps(client: SyncDataProxyClient) -> int:
    """Trained versions that serve or served."""
    return len(_served(client.list_versions()))


def measure(stack: RunningStack, answers: list[Answer], result: ArmResult) -> None:
    """Fill ``result`` from the store of ``stack``, once everything that was answered is in it."""
    with stack.client() as client:
        _wait_drained(client)
        status = client.status()
        result.num_answers = len(answers)
        result.num_right = sum(answer.success for answer in answers)
        result.num_partial = sum(answer.partial for answer in answers)
        result.num_events = status.events
        result.redactions = dict(status.redactions)
        result.rewards = {row.version: (row.mean, row.num) for row in client.reward_stats()}
        result.swaps = [_swap(version) for version in _served(client.list_versions())]
        found = _verdicts(client)
    verdicts = {answer.completion_id: found[answer.completion_id[_EVENT_ID]] for answer in answers}
    trainable = {name for name, (eligible, _) in verdicts.items() if eligible}
    personal = [answer.completion_id for answer in answers if answer.personal]
    result.trainable = Share(len(trainable), len(verdicts))
    result.trainable_personal = Share(sum(name in trainable for name in personal), len(personal))
    for eligible, reason in verdicts.values():
        if not eligible:
            result.refused[reason] = result.refused.get(reason, 0) + 1


def _served(versions: list[PolicyVersion]) -> list[PolicyVersion]:
    return [version for version in versions if version_index(version.version) > 0 and version.state in ("serving", "retired")]


def _wait_drained(client: SyncDataProxyClient) -> None:
    deadline = time.monotonic() + _DRAIN_TIMEOUT_S
    while client.status().journal_backlog:
        if time.monotonic() > deadline:
            raise DemoFailed(f"the data proxy has not drained the journal in {_DRAIN_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def _swap(version: PolicyVersion) -> Swap:
    metrics = version.metrics
    return Swap(
        version=version.version,
        num_in_flight=int(metrics["num_in_flight_before"]),
        num_aborted=int(metrics["num_aborted"]),
        paused_s=metrics["paused_s"],
        logprob_diff_median=metrics.get("logprob_diff_median"),
    )


def _verdicts(client: SyncDataProxyClient) -> dict[str, tuple[bool, str]]:
    """Event id → whether its trajectory may be trained on, and why (not)."""
    decided = {row.trajectory_id: row.reasons for row in _trajectories(client)}
    return {event_id: ("eligible" in decided[name], ", ".join(sorted(decided[name]))) for event_id, name in _events(client)}


def _trajectories(client: SyncDataProxyClient) -> Iterator[TrajectoryRow]:
    after: str | None = None
    while True:
        page = client.list_trajectories(after=after, limit=_PAGE)
        yield from page.rows
        if (after := page.next_after) is None:
            return


def _events(client: SyncDataProxyClient) -> Iterator[tuple[str, str]]:
    """Model calls: event id and trajectory id."""
    after: int | None = None
    while True:
        page = client.list_events(limit=_PAGE, after=after, kind="model_call")
        yield from ((event.event_id, event.trajectory_id) for event in page.events)
        if (after := page.next_after) is None:
            return
