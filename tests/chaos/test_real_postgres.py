"""PostgreSQL stopped under a whole Headrace with a real engine and load: calls go on, nothing is lost, no process ends.

Not in `test_real`, whose two engines run to the end of its file.
"""

import json
from pathlib import Path

import pytest

from deploy.launcher.running import RunningStack
from tests.e2e import oracle
from tests.e2e.test_fleet import TRAINER
from tests.e2e.test_kill import load, settle, versions
from tests.postgres import HOW_TO_GET_IT, find_binaries, temporary_postgres
from tests.stack import running_stack

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

STOPS = 8


def test_postgresql_stopped_again_and_again_loses_nothing_and_no_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_binaries() is None:
        pytest.skip(f"NOT TESTED: {HOW_TO_GET_IT}")
    received = tmp_path / "received.jsonl"
    with temporary_postgres() as server:
        database = server.new_database()
        monkeypatch.setattr(oracle, "rows", lambda stack, query: database.rows(query))
        urls = database.environment
        arguments = ["--database-url", urls["HEADRACE_DATAPROXY_DATABASE_URL"]]
        arguments += ["--database-owner-url", urls["HEADRACE_DATAPROXY_DATABASE_OWNER_URL"]]
        with running_stack(tmp_path, *arguments, environment=TRAINER) as stack:
            key = stack.new_agent("acme", "bot", training=True, reason="postgres test")
            with load(stack, key, received) as client:
                oracle.until(lambda: versions(stack) >= 1, "a first version", stack)
                before = {name: stack.pid(name) for name in processes(stack)}
                for _ in range(STOPS):
                    num_versions, num_answers = versions(stack), oracle.num_answers(received)
                    server.stop()
                    oracle.until(lambda n=num_answers: oracle.num_answers(received) > n + 10, "calls without a store", stack)
                    server.start()
                    oracle.until(lambda n=num_versions: versions(stack) > n, "a version after the stop", stack)
                assert client.poll() is None
            settle(stack)
            assert {name: stack.pid(name) for name in processes(stack)} == before, "a process was started again"
            answers, rewards = oracle.lines(received, "answer"), oracle.lines(received, "reward")
            print(f"\n{len(answers)} answers, {len(rewards)} rewards, {STOPS} stops, {versions(stack)} versions")
            oracle.check_answers(stack, answers)
            oracle.check_rewards(stack, rewards)
            oracle.check_training(stack)
            assert oracle.rows(stack, "SELECT count(*) FROM quarantine") == [(0,)]


def processes(stack: RunningStack) -> list[str]:
    """Their names."""
    return list(json.loads(stack.paths.stack_file.read_text())["processes"])
