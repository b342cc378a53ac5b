"""What the store says after an arm: versions and swaps, rewards by version, events, redactions, what may be trained on."""

import time

from atdp.versions import PolicyVersion, version_index
from dataproxy.client import SyncDataProxyClient
from deploy.demo.plan import Answer, ArmResult, Share, Swap
from deploy.errors import DemoFailed
from deploy.launcher.running import RunningStack

_DRAIN_TIMEOUT_S = 60.0
_POLL_S = 0.25
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
        result.num_events = status.events
        result.redactions = dict(status.redactions)
        result.rewards = {row.version: (row.mean, row.num) for row in client.reward_stats()}
        result.swaps = [_swap(version) for version in _served(client.list_versions())]
        verdicts = {answer.completion_id: _verdict(client, answer.completion_id) for answer in answers}
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


def _verdict(client: SyncDataProxyClient, completion_id: str) -> tuple[bool, str]:
    """Whether the trajectory of one answer may be trained on, and why (not)."""
    trajectory_id = client.get_event(completion_id[_EVENT_ID]).event.trajectory_id
    detail = client.get_trajectory(trajectory_id)
    return detail.eligible, detail.reason
