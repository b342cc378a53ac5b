"""The demo from its first line to its last: the arms one after another, then the table, the picture and the JSON."""

import json
import shutil
import time
from pathlib import Path

from rich.console import Console

from deploy.demo.arm import ArmRun
from deploy.demo.curve import draw
from deploy.demo.plan import TENANT, ArmResult, DemoPlan
from deploy.demo.progress import showing
from deploy.demo.table import as_json, num_aborted, print_table
from deploy.errors import DemoFailed

_INTRODUCTION = (
    "[bold]Headrace demo.[/bold] An agent files support tickets under their order numbers, over an OpenAI base URL; its user "
    "rewards the answers seconds later. Nothing else teaches it: no example, no hint, no supervised step. The tickets are "
    "invented, a third of them hold personal details; consent to record and to train is put on record for the tenant "
    '"{tenant}", which lives in {directory}.\n'
)


def run(plan: DemoPlan, console: Console, json_file: Path | None) -> None:
    """Run ``plan``, show what it found, and write it to ``json_file``.

    Raises:
        DeployError: it could not be run, or what it shows breaks a promise (an aborted request, a value at rest).
    """
    started = time.monotonic()
    console.print(_INTRODUCTION.format(tenant=TENANT, directory=plan.directory), highlight=False)
    results: list[ArmResult] = []
    with showing(console) as show:
        for arm in plan.arms:
            (plan.directory / arm).mkdir(parents=True)
            results.append(ArmRun(plan, arm, show, results[0] if results else None).run())
    picture = draw(results, plan.directory / "reward-curve.png")
    seconds = time.monotonic() - started
    print_table(console, results, [picture])
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(results, plan.seed, seconds), indent=2) + "\n")
    require_promises(results)
    if not plan.keep:
        for arm in plan.arms:
            shutil.rmtree(plan.directory / arm)


def require_promises(results: list[ArmResult]) -> None:
    """What must hold however little was learned.

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
