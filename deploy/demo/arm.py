"""One arm of the demo: a fresh Headrace, an exam, learning under traffic, and the exam again.

The control arm differs in one thing: its user gives each answer the reward of another one.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.demo import measure
from deploy.demo.actors import Actor
from deploy.demo.patience import Patience
from deploy.demo.plan import (
    CONSENT_REASON,
    DESK,
    EXAMINEE,
    LEARNER,
    NO_TRAINING_REASON,
    TENANT,
    Answer,
    Arm,
    ArmResult,
    DemoPlan,
    Exam,
)
from deploy.demo.progress import Show
from deploy.demo.recipe import RECIPE
from deploy.demo.task import Task, partial_share, share
from deploy.launcher.running import RunningStack
from deploy.launcher.stack import TRAINER

_AGENT = "examples.triage.agent"
_USER = "examples.triage.user"
_NUM_RECENT = 64


class ArmRun:
    """One run of ``arm`` as ``plan`` says; ``first``, an earlier arm's result, gives the exam of the same weights and the number of
    steps.
    """

    def __init__(self, plan: DemoPlan, arm: Arm, show: Show, first: ArmResult | None) -> None:
        self._plan = plan
        self._arm = arm
        self._show = show
        self._num_steps = plan.num_steps if first is None else max(1, len(first.swaps))
        self._known_before = None if first is None else first.before
        self._directory = plan.directory / arm
        self._result = ArmResult(arm)
        self._task = Task()

    def run(self) -> ArmResult:
        """From nothing to the result.

        Raises:
            DeployError: something did not start, ended, or took too long.
        """
        started = time.monotonic()
        with self._started() as stack:
            learner = stack.new_agent(TENANT, LEARNER, training=True, reason=CONSENT_REASON)
            examinee = stack.new_agent(TENANT, EXAMINEE, training=False, reason=NO_TRAINING_REASON)
            self._result.before = self._known_before or self._exam(stack, examinee, "before")
            desk = stack.new_agent(TENANT, DESK, training=False, reason=NO_TRAINING_REASON)
            answers = self._learn(stack, learner, desk)
            self._result.after = self._exam(stack, examinee, "after")
            with self._show.phase(f"{self._arm}: read the store", 1):
                measure.measure(stack, answers, self._result)
        self._result.seconds = time.monotonic() - started
        return self._result

    @contextmanager
    def _started(self) -> Iterator[RunningStack]:
        steps, seed = str(self._num_steps), str(self._plan.seed)  # then the trainer ends, and the exam's weights stay
        environment = {
            **RECIPE,
            "HEADRACE_TRAINER_MAX_STEPS": steps,
            "HEADRACE_TRAINER_SEED": seed,
            "HEADRACE_TRAINER_TENANT": TENANT,
        }
        with RunningStack.start(self._plan.paths(self._arm), ["--model", self._plan.model], environment) as stack:
            with self._show.phase(f"{self._arm}: start", 1) as phase:
                stack.wait_ready()
                phase.at(1, f"gateway {stack.gateway}")
            yield stack

    def _exam(self, stack: RunningStack, key: str, when: str) -> Exam:
        """Held-out tickets, answered with fixed weights at the agent's own sampling."""
        n, answers = self._plan.num_held_out, list[Answer]()
        agent = self._agent(stack, key, f"exam-{when}", "--split", "held_out", "--num", str(n))
        with self._show.phase(f"{self._arm}: exam {when}", n) as phase, agent:
            patience = Patience(f"the exam {when}", self._plan.patience_s, stack, agent)
            while len(answers) < n:
                fresh = self._task.answers(agent.lines.new())
                answers += fresh
                phase.at(len(answers), f"success {share(answers):.2f}, partial credit {partial_share(answers):.2f}")
                patience.wait(bool(fresh))
        return Exam(sum(answer.success for answer in answers), sum(answer.partial for answer in answers), n)

    def _learn(self, stack: RunningStack, key: str, desk: str) -> list[Answer]:
        """Traffic, rewards seconds later, training and swaps, until the last step's version serves, or enough was learned."""
        plan, answers, num_swaps, enough = self._plan, list[Answer](), 0, False
        agent = self._agent(stack, key, "train", "--split", "train", "--num", "0")
        with self._show.phase(f"{self._arm}: learn", self._num_steps) as phase, stack.client() as client:
            with agent, self._user(stack, desk, agent) as user:
                patience = Patience("learning", plan.patience_s, stack, agent, user)
                while num_swaps < self._num_steps and not enough:
                    answers += self._task.answers(agent.lines.new())
                    before, num_swaps = num_swaps, measure.num_swaps(client)
                    recent = answers[-_NUM_RECENT:]
                    of_recent = f"success {share(recent):.2f}, partial credit {partial_share(recent):.2f}"
                    found = f"{len(answers)} answers, of the last {len(recent)}: {of_recent}"
                    phase.at(num_swaps, f"version {num_swaps}, {found}")
                    enough = len(recent) == _NUM_RECENT and share(recent) > plan.enough
                    patience.wait(num_swaps > before)
                if enough:
                    stack.finish(TRAINER)  # the step that it is at is taken to its end, under traffic
            return answers + self._task.answers(agent.lines.new())

    def _agent(self, stack: RunningStack, key: str, name: str, *arguments: str) -> Actor:
        common = ["--model", stack.model, "--concurrency", str(self._plan.concurrency), "--seed", str(self._plan.seed)]
        out, log = self._directory / f"{name}.jsonl", self._directory / f"{name}.log"
        return Actor(_AGENT, [*common, *arguments], f"{stack.gateway}/v1", key, "--outbox", out, log)

    def _user(self, stack: RunningStack, key: str, agent: Actor) -> Actor:
        arguments = user_arguments(self._plan, self._arm, agent.out)
        out, log = self._directory / "rewards.jsonl", self._directory / "rewards.log"
        return Actor(_USER, arguments, f"{stack.gateway}/v1", key, "--log", out, log)


def user_arguments(plan: DemoPlan, arm: Arm, outbox: Path) -> list[str]:
    """What the user of an arm is told: in the control arm, to deal the rewards at random."""
    delay = [f"{limit:g}" for limit in plan.reward_delay_s]
    control = ["--shuffle"] if arm == "control" else []
    return ["--outbox", str(outbox), "--delay-s", *delay, "--seed", str(plan.seed), *control]
