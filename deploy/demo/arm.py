"""One arm of the demo: a fresh Headrace, an exam, learning under traffic, the exam again, and what was left behind.

The control arm differs in one thing: its user gives each answer the reward of another one.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.demo import measure
from deploy.demo.actors import Actor
from deploy.demo.at_rest import search
from deploy.demo.patience import Patience
from deploy.demo.plan import CONSENT_REASON, EXAM_REASON, EXAMINEE, LEARNER, TENANT, Answer, Arm, ArmResult, DemoPlan, Exam
from deploy.demo.progress import Show
from deploy.launcher.running import RunningStack
from deploy.paths import Paths

_AGENT = "examples.triage.agent"
_USER = "examples.triage.user"
_NUM_RECENT = 64


class ArmRun:
    """One run of ``arm`` as ``plan`` says; ``known_before`` is an exam of the same weights, if one was held."""

    def __init__(self, plan: DemoPlan, arm: Arm, show: Show, known_before: Exam | None) -> None:
        self._plan = plan
        self._arm = arm
        self._show = show
        self._known_before = known_before
        self._directory = plan.directory / arm
        self._result = ArmResult(arm)

    def run(self) -> ArmResult:
        """From nothing to the result.

        Raises:
            DeployError: something did not start, ended, or took too long.
        """
        started = time.monotonic()
        with self._started() as stack:
            learner = stack.new_agent(TENANT, LEARNER, training=True, reason=CONSENT_REASON)
            examinee = stack.new_agent(TENANT, EXAMINEE, training=False, reason=EXAM_REASON)
            self._result.before = self._known_before or self._exam(stack, examinee, "before")
            answers = self._learn(stack, learner)
            self._result.after = self._exam(stack, examinee, "after")
            measure.measure(stack, answers, self._result)
        with self._show.phase(f"{self._arm}: search at rest", 1):
            search(stack.paths, stack.model_dir, self._result)
        self._result.seconds = time.monotonic() - started
        return self._result

    @contextmanager
    def _started(self) -> Iterator[RunningStack]:
        paths = Paths(self._directory / "data", self._directory / "config")
        environment = {"HEADRACE_TRAINER_SEED": str(self._plan.seed), "HEADRACE_TRAINER_TENANT": TENANT}
        with self._show.phase(f"{self._arm}: start", 1) as phase, RunningStack.start(paths, [], environment) as stack:
            stack.wait_ready()
            phase.at(1, f"gateway {stack.gateway}")
            yield stack

    def _exam(self, stack: RunningStack, key: str, when: str) -> Exam:
        """Held-out tickets, answered at the agent's own sampling. A call that failed is an answer without success."""
        n, num_scored, num_failed, successes = self._plan.num_held_out, 0, 0, 0
        agent = self._agent(stack, key, f"exam-{when}", "held_out", n)
        user = self._user(stack, key, agent, f"exam-{when}-scores", "--no-post")
        with self._show.phase(f"{self._arm}: exam {when}", n) as phase, agent, user:
            patience = Patience(f"the exam {when}", self._plan.patience_s, stack, agent, user)
            while num_scored + num_failed < n:
                scored = user.lines.new()
                failed = [line for line in agent.lines.new() if "error" in line]
                num_scored, num_failed = num_scored + len(scored), num_failed + len(failed)
                successes += sum(bool(line["success"]) for line in scored)
                phase.at(num_scored + num_failed, f"success {successes / max(1, num_scored + num_failed):.2f}")
                patience.wait(bool(scored or failed))
        return Exam(successes, n)

    def _learn(self, stack: RunningStack, key: str) -> list[Answer]:
        """Traffic, rewards seconds later, training and swaps, until the last step's version serves."""
        num_steps = self._plan.num_steps
        agent = self._agent(stack, key, "train", "train", 0)
        control = ("--shuffle-seed", str(self._plan.seed)) if self._arm == "control" else ()
        user = self._user(stack, key, agent, "rewards", "--delay-s", f"{self._plan.reward_delay_s:g}", *control)
        answers: list[Answer] = []
        with self._show.phase(f"{self._arm}: learn", num_steps) as phase, stack.client() as client, agent, user:
            patience = Patience("learning", self._plan.patience_s, stack, agent, user)
            step = 0
            while step < num_steps:
                fresh = [Answer.from_line(line) for line in user.lines.new()]
                answers += fresh
                before, step = step, measure.num_served(client)
                recent = answers[-_NUM_RECENT:]
                success = sum(answer.success for answer in recent) / max(1, len(recent))
                phase.at(step, f"v{step:06d}  {len(answers)} answers  success of the last {len(recent)}: {success:.2f}")
                patience.wait(step > before)
        return answers

    def _agent(self, stack: RunningStack, key: str, name: str, split: str, num: int) -> Actor:
        plan = self._plan
        arguments = ["--model", stack.model, "--split", split, "--num", str(num), "--concurrency", str(plan.concurrency)]
        return self._actor(_AGENT, [*arguments, "--seed", str(plan.seed)], stack, key, name)

    def _user(self, stack: RunningStack, key: str, agent: Actor, name: str, *arguments: str) -> Actor:
        return self._actor(_USER, ["--follow", str(agent.out), *arguments], stack, key, name)

    def _actor(self, module: str, arguments: list[str], stack: RunningStack, key: str, name: str) -> Actor:
        out, log = self._directory / f"{name}.jsonl", self._directory / f"{name}.log"
        return Actor(module, arguments, f"{stack.gateway}/v1", key, out, log)
