"""``headrace up``: run everything on this machine until Ctrl-C."""

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deploy.commands.console import URL
from deploy.commands.options import ConfigDir, DataDir, paths_of

if TYPE_CHECKING:
    from rich.console import Console

    from deploy.launcher.first_run import FirstRun
    from deploy.launcher.options import UpOptions
    from deploy.launcher.stack import Endpoints


def up(
    data_dir: DataDir,
    config_dir: ConfigDir,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The gateway's port; 0 takes a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="The gateway's address.")] = "127.0.0.1",
    model: Annotated[str, typer.Option(help="smollm2, tiny (random weights, starts fast), or a model's directory.")] = "smollm2",
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="What the engine computes in.")] = "float32",
    train: Annotated[bool, typer.Option("--train/--no-train", help="Run the trainer.")] = True,
    gateways: Annotated[int, typer.Option(min=1, max=32, help="Processes of the gateway, on one port.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=32, help="Engines, each with a copy of the model; two allow a canary.")] = 1,
    ranks: Annotated[int, typer.Option(min=1, max=64, help="Processes of the trainer.")] = 1,
    tenant: Annotated[str, typer.Option(help="The tenant that gets the first key.")] = "default",
    train_consent: Annotated[bool, typer.Option("--train-consent", help="Put consent to train on record for the tenant.")] = False,
    engine_args: Annotated[str, typer.Option(help="More flags for SGLang, quoted as in a shell.")] = "",
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_DATAPROXY_DATABASE_URL",
            help="Keep the store in PostgreSQL: postgresql+psycopg://role@host/database. A password belongs in the variable.",
        ),
    ] = None,
    database_owner_url: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_DATAPROXY_DATABASE_OWNER_URL",
            help="The same by its owner, who makes and migrates the tables.",
        ),
    ] = None,
    for_program: Annotated[bool, typer.Option("--for-program", hidden=True)] = False,
) -> None:
    """Run gateway, engine, data proxy and trainer on this machine until Ctrl-C.

    Every start prints where the gateway and the web console are, the first one an agent key, once, and how to try it. Exchanges
    are recorded (redacted) for the tenant; nothing is trained on until training is consented to.

    \b
    Examples:
      headrace up
      headrace up --port 9000 --no-train
      headrace up --workers 2
      headrace up --model ~/models/Qwen3-0.6B --engine-args "--tool-call-parser qwen25 --reasoning-parser qwen3"
      headrace up --database-url postgresql+psycopg://headrace@/headrace --database-owner-url postgresql+psycopg://headrace_owner@/headrace
      headrace up --model tiny --data-dir /tmp/try --config-dir /tmp/try-keys --train-consent
    """
    from rich.console import Console

    from deploy.launcher.options import UpOptions
    from deploy.launcher.report import Report
    from deploy.launcher.up import run

    options = UpOptions(
        paths=paths_of(data_dir, config_dir), host=host, port=port, model=model, dtype=dtype, num_ranks=ranks, train=train,
        num_gateways=gateways, num_workers=workers, train_consent=train_consent, tenant=tenant, for_program=for_program,
        engine_args=tuple(shlex.split(engine_args)), database_url=database_url, database_owner_url=database_owner_url,
    )  # fmt: skip
    console = Console()
    run(options, Report(console), lambda endpoints, first: None if for_program else welcome(console, options, endpoints, first))


def welcome(console: "Console", options: "UpOptions", endpoints: "Endpoints", first: "FirstRun") -> None:
    """The first screen: where to point an agent and a browser, the agent's key if it is new, and what is consented to."""
    base_url = f"{endpoints.gateway}/v1"
    console.print(
        f"\n[bold]Headrace serves.[/bold] Point an agent's base URL at [bold]{base_url}[/bold] (model {options.model_name}).",
        soft_wrap=True,
    )
    console.print(f"For reviewers and trainers: headrace console, then [bold]{URL}[/bold] in a browser.", soft_wrap=True)
    if first.key is not None:
        console.print(f"The agent's key, shown this once: [bold]{first.key}[/bold]", soft_wrap=True)
    shown = first.key or "$YOUR_KEY"
    body = f'{{"model": "{options.model_name}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    headers = f'-H "Authorization: Bearer {shown}" -H "Content-Type: application/json"'
    console.print(
        f"Try it:\n  curl {base_url}/chat/completions {headers} \\\n    -d '{body}'", soft_wrap=True, markup=False, highlight=False
    )
    consent = first.consent
    recording = "[green]on[/green]" if consent.recording else "[red]off[/red]"
    training = (
        "[green]on[/green]"
        if consent.training
        else f"[yellow]off[/yellow] (turn it on: headrace consent grant {options.tenant} --training)"
    )
    console.print(f"Consent of tenant {options.tenant}: recording {recording}, training {training}.", soft_wrap=True)
    console.print("See more with headrace status, headrace audit list. Ctrl-C ends everything.\n", soft_wrap=True)
