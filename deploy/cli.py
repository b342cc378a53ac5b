"""The command line, ``headrace``: one command per file under ``deploy/commands``. Each imports what is heavy when it is called."""

import sys

import typer

from deploy.commands import (
    agents,
    audit,
    consent,
    console,
    demo,
    export,
    feedback,
    keys,
    quarantine,
    recording,
    redaction,
    rollback,
    status,
    tenant,
    train,
    up,
    vault,
    versions,
    workers,
)

_HELP = """An OpenAI-compatible gateway that turns live agent traffic into governed online reinforcement learning.

Start it with [bold]headrace up[/bold], point an agent's base URL at it, and reward its answers with [bold]headrace feedback[/bold];
[bold]headrace demo[/bold] shows the whole of it in a quarter of an hour.
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)
app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command("status")(status.status)
app.add_typer(keys.app, name="keys")
app.add_typer(consent.app, name="consent")
app.add_typer(recording.app, name="recording")
app.add_typer(redaction.app, name="redaction")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(vault.app, name="vault")
app.add_typer(agents.app, name="agents")
app.add_typer(feedback.app, name="feedback")
app.command("console")(console.console)
app.command("export")(export.export)
app.add_typer(versions.app, name="versions")
app.add_typer(workers.app, name="workers")
app.command("rollback")(rollback.rollback)
app.command("train")(train.train)
app.add_typer(audit.app, name="audit")
app.add_typer(tenant.app, name="tenant")


def main() -> None:
    """Entry point of ``headrace``: a failure that we know is one sentence on standard error and exit status 1."""
    from dataproxy.client import DataProxyClientError
    from deploy.errors import DeployError

    try:
        app()
    except (DeployError, DataProxyClientError) as error:
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
