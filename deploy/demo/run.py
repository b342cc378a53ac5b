"""The demo from its first line to its last: the arms one after another, then the table, the picture and the JSON."""

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from deploy.demo.arm import ArmRun
from deploy.demo.at_rest import search
from deploy.demo.curve import draw
from deploy.demo.plan import GOAL, TENANT, Arm, ArmResult, DemoPlan
from deploy.demo.progress import Show, showing
from deploy.demo.table import as_json, num_aborted, print_table, rise
from deploy.errors import DemoFailed
from deploy.paths import Paths

_INTRODUCTION = (
    "[bold]Headrace demo.[/bold] An agent files support tickets under their order numbers, over an OpenAI base URL; its user "
    "rewards the answers seconds later, in part where the form alone is right. Nothing else teaches it: its prompt shows the form, "
    "with a number that is no ticket's; no right answer is shown to it, and no step is supervised. The tickets are invented, a "
    "third of them hold personal details; consent to record and to train is put on record for the tenant "
    '"{tenant}", which lives in {directory}.\n'
)

RunArm = Callable[[DemoPlan, Arm, Show, ArmResult | None], ArmResult]
Search = Callable[[Paths, ArmResult], None]


def _run_arm(plan: DemoPlan, arm: Arm, show: Show, first: ArmResult | None) -> ArmResult:
    """One arm as ``ArmRun`` does it."""
    return ArmRun(plan, arm, show, first).run()


def run(plan: DemoPlan, console: Console, json_file: Path | None, run_arm: RunArm = _run_arm, search_arm: Search = search) -> None:
    """Run ``plan``, each arm by ``run_arm``, show what it found, and write it to ``json_file``.

    What an arm left on the disk is searched by ``search_arm`` while the next one runs.

    Raises:
        DeployError: it could not be run, or what it shows breaks a promise (an aborted request, a value at rest, too small a rise).
    """
    started = time.monotonic()
    console.print(_INTRODUCTION.format(tenant=TENANT, directory=plan.directory), highlight=False)
    results: list[ArmResult] = []
    with showing(console) as show, ThreadPoolExecutor() as aside:
        searches = []
        for arm in plan.arms:
            (plan.directory / arm).mkdir(parents=True)
            results.append(run_arm(plan, arm, show, results[0] if results else None))
            searches.append(aside.submit(search_arm, plan.paths(arm), results[-1]))
        with show.phase("search at rest", len(searches)) as phase:
            for number, done in enumerate(searches, 1):
                done.result()
                phase.at(number, f"{sum(result.num_values_found for result in results[:number])} values found")
    picture = draw(results, plan.directory / "reward-curve.png")
    seconds = time.monotonic() - started
    print_table(console, results, [picture])
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(results, plan.seed, seconds), indent=2) + "\n")
    require_promises(plan, results)
    if not plan.keep:
        for arm in plan.arms:
            shutil.rmtree(plan.directory / arm)


def require_promises(plan: DemoPlan, results: list[ArmResult]) -> None:
    """What must hold however little was learned, and then the rise of the online arm where ``plan`` must show it.

    Raises:
        DemoFailed: naming the promise that did not.
    """
    for result in results:
        if num_aborted(result):
            raise DemoFailed(f"{result.arm}: swaps aborted {num_aborted(result)} requests; none may be")
        if not result.planted_found:
            raise DemoFailed(f"{result.arm}: the search at rest did not find the planted control, so its silence proves nothing")
        if result.num_values_found:
            places = "\n".join(f"    {place}" for place in result.places_found)
            raise DemoFailed(f"{result.arm}: {result.num_values_found} personal values lie unredacted at rest:\n{places}")
    for result in results:
        is_measured = result.arm == "online" and result.before is not None and result.after is not None
        if plan.must_learn and is_measured and rise(result) < GOAL:
            raise DemoFailed(
                f"online: held-out success rose by {rise(result):+.2f}, less than the +{GOAL:.2f} that a whole run has to show. "
                f"What it did lies in {plan.directory}; try another --seed, or more --steps."
            )
