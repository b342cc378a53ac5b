"""``headrace feedback``: reward, label or correct an answer, however late."""

from typing import Annotated, Literal

import typer

from deploy.commands.options import ConfigDir, DataDir, admin_client


def feedback(
    data_dir: DataDir,
    config_dir: ConfigDir,
    target: Annotated[str, typer.Argument(help="An answer's id (chatcmpl-…), or an event, trajectory or session id.")],
    value: Annotated[float | None, typer.Argument(help="The reward.")] = None,
    label: Annotated[str | None, typer.Option(help="A label instead of, or beside, a number.")] = None,
    correction: Annotated[str | None, typer.Option(help="What the answer should have been.")] = None,
    name: Annotated[str, typer.Option(help="Which reward it is; a later value of the same name replaces the earlier.")] = "reward",
    source: Annotated[Literal["user", "test", "judge", "human", "environment"], typer.Option(help="Where it comes from.")] = "user",
    explanation: Annotated[str | None, typer.Option(help="Why.")] = None,
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
    item = Feedback(target, value, label, correction, name, source, explanation)
    with admin_client(data_dir, config_dir) as client:
        receipt = client.feedback(item)
    if receipt.status == "pending":
        print(f"Kept as {receipt.reward_id}: it counts as soon as its exchange is stored.")
    else:
        print(f"Stored as {receipt.reward_id} for {receipt.target_kind} {receipt.target_id}.")
