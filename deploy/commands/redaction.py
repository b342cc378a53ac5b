"""``headrace redaction``: a tenant's own rules, what may stay, whether names are sought, and what becomes of a text."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client
from deploy.errors import DeployError

app = typer.Typer(help="Say what is redacted for a tenant, beyond the built-in rules, and try it out.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant.")]


@app.command()
def show(data_dir: DataDir, config_dir: ConfigDir, tenant: Tenant = "default", json: Json = False) -> None:
    """Show the policy that holds, as JSON, and its number. Values that may stay are shown as digests."""
    import msgspec

    with admin_client(data_dir, config_dir) as client:
        shown = client.get_redaction(tenant)
    if json:
        print(msgspec.json.encode(shown).decode())
        return
    print(f"Tenant {tenant}: {'policy ' + str(shown.number) if shown.number else 'the built-in rules alone'}.")
    print(msgspec.json.format(msgspec.json.encode(shown.policy), indent=2).decode())


@app.command("set")
def set_(
    data_dir: DataDir,
    config_dir: ConfigDir,
    file: Annotated[Path, typer.Argument(help="The policy, a JSON file.")],
    tenant: Tenant = "default",
    reason: Annotated[str, typer.Option(help="Why: kept on record.")] = "set with `headrace redaction set`",
    json: Json = False,
) -> None:
    """Put a policy on record. It holds for what is recorded from now on, and its number goes into every event.

    \b
    A policy, every part of it optional:
      {"rules": [{"name": "employee", "pattern": "EMP-[0-9]{5}", "kind": "EMPLOYEE_ID"}],
       "allow": ["help@example.com"], "allow_patterns": ["test[0-9]+@example\\\\.com"],
       "names": ["PERSON", "PLACE", "ORG"], "actions": {"CARD": "drop"}, "pseudonymize": false}

    With pseudonymize models see surrogates of what is found, and agents get their values back.

    \b
    Examples:
      headrace redaction set policy.json --tenant acme --reason "staff numbers, ticket 4711"
      headrace redaction test "mail EMP-12345" --tenant acme --policy policy.json
    """
    import msgspec

    from dataproxy.client.types import RedactionSet

    policy = _read(file)
    with admin_client(data_dir, config_dir) as client:
        done = client.set_redaction(RedactionSet(policy, reason, tenant))
    if json:
        print(msgspec.json.encode(done).decode())
    else:
        print(f"On record for tenant {tenant}: redaction policy {done.number}.")


@app.command()
def test(
    data_dir: DataDir,
    config_dir: ConfigDir,
    text: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    tenant: Tenant = "default",
    policy: Annotated[Path | None, typer.Option(help="Try this policy instead of the one that holds.")] = None,
    json: Json = False,
) -> None:
    """Show what redaction makes of a text. Nothing is stored.

    \b
    Example:
      headrace redaction test "write to ana@example.com"
    """
    import sys

    import msgspec

    from dataproxy.client.types import RedactionTest

    asked = RedactionTest(sys.stdin.read() if text == "-" else text, tenant, _read(policy) if policy is not None else None)
    with admin_client(data_dir, config_dir) as client:
        tried = client.test_redaction(asked)
    print(msgspec.json.encode(tried).decode() if json else tried.text)


def _read(file: Path) -> dict[str, object]:
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    except OSError as error:
        raise DeployError(f"{file} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise DeployError(f"{file} is no JSON object: {error}") from error
