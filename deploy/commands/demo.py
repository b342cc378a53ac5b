"""``headrace demo``: the whole loop on one small job, before and after."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from deploy.demo.plan import ENOUGH, NUM_HELD_OUT, NUM_STEPS
from deploy.launcher.options import SMOLLM2

Arm = Literal["online", "control"]


def demo(
    seed: Annotated[int, typer.Option(help="Of the agent's order of tickets, the trainer and the control arm's shuffle.")] = 1,
    arms: Annotated[
        str, typer.Option(help="Which to run, in order; control gives each answer another one's reward.")
    ] = "online,control",
    steps: Annotated[int, typer.Option(min=1, help="Training steps per arm, at most.")] = NUM_STEPS,
    enough: Annotated[
        float, typer.Option(min=0, max=1, help="Stop learning once more than this share of the last 64 answers is right; 1: never.")
    ] = ENOUGH,
    exam: Annotated[int, typer.Option(min=1, help="Held-out answers before and after.")] = NUM_HELD_OUT,
    model: Annotated[str, typer.Option(help="smollm2; tiny shows the machinery alone, and learns nothing.")] = SMOLLM2,
    json: Annotated[Path | None, typer.Option("--json", help="Write what was found to this file, too.")] = None,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where to run; a new folder in your cache otherwise.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data directories, to look at with headrace audit.")] = False,
) -> None:
    """Start Headrace, let an agent work, learn from its rewards, and show that it got better.

    Two arms, one after another: online, and a control whose rewards are shuffled, which takes as many steps and must not
    improve. Each is a fresh Headrace with real SGLang, a trainer, and weights swapped while the agent keeps talking.

    Exit status 1 where something failed: a swap aborted a request, a personal value lies at rest, or held-out success rose by
    less than 0.30, unless --model, --steps, --exam or --enough asked for less than the whole.

    \b
    Examples:
      headrace demo
      headrace demo --arms online --steps 5         (a short look)
      headrace demo --seed 3 --json found.json --keep
    """
    import time

    from rich.console import Console

    from deploy.demo.plan import DemoPlan
    from deploy.demo.run import run
    from deploy.paths import cache_dir

    place = directory or cache_dir() / "demo" / time.strftime("%Y%m%d-%H%M%S")
    place = place.expanduser().absolute()
    plan = DemoPlan(seed, _arms(arms), place, num_steps=steps, num_held_out=exam, keep=keep, enough=enough, model=model)
    run(plan, Console(), json)


def _arms(text: str) -> tuple[Arm, ...]:
    known: tuple[Arm, ...] = get_args(Arm)
    chosen = tuple(arm for arm in known if arm in text.split(","))
    if not chosen or set(text.split(",")) - set(known):
        raise typer.BadParameter(f"{text!r}: give online, control, or both with a comma")
    return chosen
