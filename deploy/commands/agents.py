"""``headrace agents``: what each agent's trajectories wait for before they train, and what rewards them by itself."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, columns, reward_client, wide

if TYPE_CHECKING:
    from dataproxy.client.reward_types import AgentRule, Sources

app = typer.Typer(help="Say what an agent's trajectories wait for before they train, and what rewards them.", no_args_is_help=True)
_RESETTABLE = (
    "settle-s",
    "terminal",
    "deadline-s",
    "deadline-value",
    "group-wait-s",
    "tool-failure",
    "user-correction",
    "tests",
    "judge",
)
_RESET_HELP = f"Back to the default: {', '.join(_RESETTABLE)}. May be repeated."


@app.command("list")
def list_(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """Show every agent's rules; what stands in parentheses is a default.

    \b
    Example:
      headrace agents list
    """
    import msgspec

    with reward_client(data_dir, config_dir) as client:
        rules = client.list_agents()
    if json:
        print(msgspec.json.encode(rules).decode())
        return
    table = columns("agent", "tenant", "settles after", "waits for", "deadline", "unrewarded by then", "group waits", "sources")
    for rule in rules:
        table.add_row(rule.agent, rule.tenant, *_cells(rule))
    wide().print(table)


@app.command("set")
def set_(
    data_dir: DataDir,
    config_dir: ConfigDir,
    agent: Annotated[str, typer.Argument(help="The agent's name.")],
    tenant: Annotated[str, typer.Option(help="Its tenant.")] = "default",
    settle_s: Annotated[float | None, typer.Option(min=0, help="Seconds without a call before a trajectory may train.")] = None,
    terminal: Annotated[str | None, typer.Option(help="The name of the reward that ends a trajectory; wait for it.")] = None,
    deadline_s: Annotated[float | None, typer.Option(min=0, help="Seconds after the last call when waiting ends.")] = None,
    deadline_value: Annotated[float | None, typer.Option(help="What nobody rewarded by then is given, on record.")] = None,
    group_wait_s: Annotated[
        float | None, typer.Option(min=0, help="Seconds that an attempt waits for others of its group.")
    ] = None,
    tool_failure: Annotated[float | None, typer.Option(help="Value for a turn whose tool call failed.")] = None,
    user_correction: Annotated[float | None, typer.Option(help="Value for a turn that the user's next message corrects.")] = None,
    tests: Annotated[list[str] | None, typer.Option(help="A tool whose results are test runs; may be repeated.")] = None,
    judge_url: Annotated[str | None, typer.Option(help="Base URL of the judge, with its /v1.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="The judge's model.")] = None,
    judge_key_env: Annotated[str, typer.Option(help="The data proxy's variable with its key: HEADRACE_JUDGE_…")] = "",
    judge_votes: Annotated[int, typer.Option(min=1, max=15, help="How often it is asked.")] = 3,
    reset: Annotated[list[str] | None, typer.Option(help=_RESET_HELP)] = None,
    json: Json = False,
) -> None:
    """Change an agent's rules; what is not named stays. They hold from the next lease on, and rewrite nothing that was trained.

    \b
    Examples:
      headrace agents set triage --settle-s 30 --terminal resolved --deadline-s 86400
      headrace agents set coder --tool-failure -0.2 --tests run_tests
      headrace agents set triage --judge-url http://127.0.0.1:8000/v1 --judge-model large --judge-key-env HEADRACE_JUDGE_KEY
      headrace agents set triage --reset judge
    """
    import msgspec

    from dataproxy.client.reward_types import AgentChange

    plain = {
        **{"settle_s": settle_s, "terminal": terminal, "deadline_s": deadline_s, "deadline_value": deadline_value},
        "group_wait_s": group_wait_s,
    }
    given: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if unknown := set(reset or []) - set(_RESETTABLE):
        raise typer.BadParameter(f"--reset takes {', '.join(_RESETTABLE)}; not {', '.join(sorted(unknown))}")
    cleared = {name.replace("-", "_") for name in reset or []}
    given |= dict.fromkeys(cleared & plain.keys())
    of_sources: dict[str, Any] = {"tool_failure": tool_failure, "user_correction": user_correction, "tests": tests}
    if (judge_url is None) != (judge_model is None):
        raise typer.BadParameter("a judge needs --judge-url and --judge-model")
    if judge_url is not None:
        of_sources["judge"] = {"base_url": judge_url, "model": judge_model, "key_env": judge_key_env, "votes": judge_votes}
    of_sources = {name: value for name, value in of_sources.items() if value is not None}
    with reward_client(data_dir, config_dir) as client:
        if of_sources or cleared - plain.keys():
            kept = next((rule.sources for rule in client.list_agents() if (rule.tenant, rule.agent) == (tenant, agent)), None)
            given["sources"] = _changed(kept, of_sources, cleared)
        if not given:
            raise typer.BadParameter("name something to change; `headrace agents set --help` shows what there is")
        rule = client.set_agent(AgentChange(tenant, agent, **given))
    if json:
        print(msgspec.json.encode(rule).decode())
        return
    names = ("settles after", "waits for", "deadline", "unrewarded by then", "group waits", "sources")
    print(f"{agent} of {tenant}: " + "; ".join(f"{name} {cell}" for name, cell in zip(names, _cells(rule), strict=True)))


def _changed(kept: "Sources | None", given: dict[str, Any], cleared: set[str]) -> "Sources":
    import msgspec

    from dataproxy.client.reward_types import Sources

    whole = {name: value for name, value in msgspec.to_builtins(kept or Sources()).items() if name not in cleared} | given
    try:
        return msgspec.convert(whole, Sources)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error


def _cells(rule: "AgentRule") -> list[str]:
    sources, on = rule.sources, []
    on += [f"tool failure {sources.tool_failure:g}"] if sources.tool_failure is not None else []
    on += [f"user correction {sources.user_correction:g}"] if sources.user_correction is not None else []
    on += [f"tests of {', '.join(sources.tests)}"] if sources.tests else []
    on += [f"judge {sources.judge.model} × {sources.judge.votes}"] if sources.judge is not None else []
    return [
        f"{rule.settle_s:g} s" if rule.settle_s is not None else f"({rule.default_settle_s:g} s)",
        f"reward {rule.terminal!r}" if rule.terminal is not None else "(any reward)",
        f"{rule.deadline_s:g} s" if rule.deadline_s is not None else "(none)",
        f"{rule.deadline_value:g}" if rule.deadline_value is not None else "(never trains)",
        f"{rule.group_wait_s:g} s" if rule.group_wait_s is not None else "(600 s)",
        ", ".join(on) or "(none)",
    ]
