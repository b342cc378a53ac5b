"""``headrace feedback``: reward, label or correct an answer, however late; and rewards whose exchange never came."""

from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, reward_client, when, wide


class _GiveFirst(TyperGroup):
    """``headrace feedback ID 1`` gives; the other words are commands."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]  # typer's own click is not typed alike everywhere
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["give", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_GiveFirst,
    no_args_is_help=True,
    help="Reward, label or correct an answer: `headrace feedback ID [VALUE]`. See `headrace feedback give --help`.",
)


@app.command(context_settings={"ignore_unknown_options": True})  # a negative value is none
def give(
    data_dir: DataDir,
    config_dir: ConfigDir,
    target: Annotated[str, typer.Argument(help="An answer's id (chatcmpl-…), or an event, trajectory or session id.")],
    value: Annotated[float | None, typer.Argument(help="The reward.")] = None,
    label: Annotated[str | None, typer.Option(help="A label instead of, or beside, a number.")] = None,
    correction: Annotated[str | None, typer.Option(help="What the answer should have been.")] = None,
    name: Annotated[str, typer.Option(help="Which reward it is; a later value of the same name replaces the earlier.")] = "reward",
    source: Annotated[Literal["user", "test", "judge", "human", "environment"], typer.Option(help="Where it comes from.")] = "user",
    explanation: Annotated[str | None, typer.Option(help="Why.")] = None,
    choice: Annotated[int | None, typer.Option(min=0, help="Only this answer of a call with n > 1; the first is 0.")] = None,
) -> None:
    """Reward an answer. It may be long closed, or trained on already: a reward is an event of its own.

    \b
    Examples:
      headrace feedback chatcmpl-0199… 1
      headrace feedback chatcmpl-0199… -0.5 --explanation "wrong queue"
      headrace feedback chatcmpl-0199… --correction "refunds"
    """
    from dataproxy.client.types import Feedback

    if value is None and label is None and correction is None:
        raise typer.BadParameter("give a value, a --label or a --correction")
    item = Feedback(target, value, label, correction, name, source, explanation, choice=choice)
    with admin_client(data_dir, config_dir) as client:
        receipt = client.feedback(item)
    if receipt.status == "pending":
        print(f"Kept as {receipt.reward_id}: it counts as soon as its exchange is stored.")
    else:
        print(f"Stored as {receipt.reward_id} for {receipt.target_kind} {receipt.target_id}.")


@app.command()
def dead(
    data_dir: DataDir,
    config_dir: ConfigDir,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the oldest first.")] = 100,
    json: Json = False,
) -> None:
    """List rewards that waited in vain for their exchange: the dead letters.

    \b
    Example:
      headrace feedback dead
    """
    import msgspec

    with reward_client(data_dir, config_dir) as client:
        letters = client.list_dead(limit)
    if json:
        print(msgspec.json.encode(letters).decode())
        return
    table = columns("letter", "tenant", "target", "reward", "given", "why")
    for letter in letters:
        said = f"{letter.name} {'' if letter.value is None else letter.value}".strip()
        table.add_row(letter.letter_id, letter.tenant, letter.target_id, said, when(letter.received_us), letter.reason)
    wide().print(table)


@app.command()
def retry(
    data_dir: DataDir,
    config_dir: ConfigDir,
    letter_id: Annotated[str, typer.Argument(help="A letter's id, from `headrace feedback dead`; `all` for each of them.")],
    json: Json = False,
) -> None:
    """Try a dead letter again: it is stored if its exchange has come by now, else it waits once more.

    \b
    Examples:
      headrace feedback retry rw-0199…
      headrace feedback retry all
    """
    import msgspec

    with reward_client(data_dir, config_dir) as client:
        ids = [letter.letter_id for letter in client.list_dead(1000)] if letter_id == "all" else [letter_id]
        retried = [client.retry_dead(one) for one in ids]
    if json:
        print(msgspec.json.encode(retried).decode())
        return
    for one in retried:
        print(f"{one.letter_id}: {'stored' if one.status == 'stored' else 'its exchange is still not there; it waits once more'}")
