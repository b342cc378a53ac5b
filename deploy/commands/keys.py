"""``headrace keys``: make, list and revoke API keys."""

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, when, wide

if TYPE_CHECKING:
    from dataproxy.client.types import KeyLimits

Concurrency = Annotated[int | None, typer.Option("--max-concurrency", min=1, help="Calls at once; more wait.")]
Requests = Annotated[int | None, typer.Option("--requests-per-minute", min=1, help="Calls a minute; beyond them 429.")]
Tokens = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, help="Prompt and output tokens a minute; beyond them 429.")
]
Budget = Annotated[int | None, typer.Option("--budget-tokens", min=1, help="Tokens in all; beyond them 429 until it is raised.")]

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

_DAY_US = 86_400_000_000


@app.command()
def create(
    data_dir: DataDir,
    config_dir: ConfigDir,
    tenant: Annotated[str, typer.Option(help="Whose key it is.")] = "default",
    agent: Annotated[str, typer.Option(help="The agent that will use it; consent and rewards are kept per agent.")] = "default",
    role: Annotated[Literal["agent", "reviewer", "trainer", "admin"], typer.Option(help="What it may do.")] = "agent",
    model: Annotated[list[str] | None, typer.Option(help="A model it may use; again for more. None given: all.")] = None,
    expires_days: Annotated[float | None, typer.Option(min=0, help="Days until it stops working.")] = None,
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    budget_tokens: Budget = None,
    json: Json = False,
) -> None:
    """Make a key and print it, this once: only its hash is kept.

    \b
    Examples:
      headrace keys create --tenant acme --agent triage
      headrace keys create --role reviewer --expires-days 30
      headrace keys create --agent crawler --max-concurrency 4 --budget-tokens 5000000
    """
    import msgspec

    from dataproxy.client.types import KeyLimits, NewKey

    expires_us = None if expires_days is None else time.time_ns() // 1000 + int(expires_days * _DAY_US)
    limits = KeyLimits(max_concurrency, requests_per_minute, tokens_per_minute, budget_tokens)
    with admin_client(data_dir, config_dir) as client:
        issued = client.create_key(NewKey(tenant, agent, role, model or [], expires_us, limits))
    if json:
        print(msgspec.json.encode(issued).decode())
    else:
        print(f"{issued.key}\nShown this once; it works within two seconds. Its id, for `headrace keys revoke`: {issued.key_id}")


@app.command("list")
def list_(data_dir: DataDir, config_dir: ConfigDir) -> None:
    """List all keys: who holds them and whether they still work."""
    with admin_client(data_dir, config_dir) as client:
        rows = client.list_keys()
    table = columns("key id", "tenant", "agent", "role", "models", "limits", "made", "expires", "revoked")
    for row in rows:
        models = ", ".join(row.models) or "all"
        times = (when(row.created_us), when(row.expires_us), when(row.revoked_us))
        limits = f"{_limits_in_words(row.limits)}; {row.limits.used_tokens} tokens used"
        table.add_row(row.key_id, row.tenant, row.agent, row.role, models, limits, *times)
    wide().print(table)


@app.command()
def limit(
    key_id: Annotated[str, typer.Argument(help="From `headrace keys list`.")],
    data_dir: DataDir,
    config_dir: ConfigDir,
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    budget_tokens: Budget = None,
) -> None:
    """Set what a key may use; what is not given is not limited. It holds within seconds.

    \b
    Examples:
      headrace keys limit key-0123 --requests-per-minute 60 --budget-tokens 2000000
      headrace keys limit key-0123
    """
    from dataproxy.client.types import KeyLimits

    limits = KeyLimits(max_concurrency, requests_per_minute, tokens_per_minute, budget_tokens)
    with admin_client(data_dir, config_dir) as client:
        info = client.limit_key(key_id, limits)
    print(f"{key_id}: {_limits_in_words(info.limits)}; {info.limits.used_tokens} tokens used so far.")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="From `headrace keys list`.")], data_dir: DataDir, config_dir: ConfigDir
) -> None:
    """Revoke a key, for good. The gateway refuses it within seconds."""
    with admin_client(data_dir, config_dir) as client:
        client.revoke_key(key_id)
    print(f"{key_id} is revoked.")


def _limits_in_words(limits: "KeyLimits") -> str:
    named = (
        (limits.max_concurrency, "at once"),
        (limits.requests_per_minute, "requests/min"),
        (limits.tokens_per_minute, "tokens/min"),
        (limits.budget_tokens, "tokens in all"),
    )
    return ", ".join(f"{value} {what}" for value, what in named if value is not None) or "no limits"


@app.command("rotate-journal")
def rotate_journal(config_dir: ConfigDir, json: Json = False) -> None:
    """Give the journal a new key pair. Nothing has to be restarted.

    Gateways seal their next segment to it (after ten minutes at the latest); the data proxy destroys the old private key once the
    segments that need it are drained.

    \b
    Example:
      headrace keys rotate-journal
    """
    from dataproxy.journal_keys import rotate
    from dataproxy.keyfiles import KeyFiles
    from deploy.errors import NotRunning

    directory = config_dir.expanduser()
    if not (directory / "journal.key").exists():
        raise NotRunning(f"{directory} holds no journal.key; `headrace up` makes it, or point --config-dir at the right place")
    public = rotate(KeyFiles(directory))
    if json:
        print(f'{{"public_key":"{public}"}}')
    else:
        print(f"The journal's new public key is {public}. The old private key goes when nothing needs it any more.")
