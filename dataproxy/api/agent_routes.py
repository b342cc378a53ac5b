"""Agents' reward rules: what their trajectories wait for, and which built-in sources reward them."""

from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_list_on_record
from dataproxy.client.reward_types import AgentChange, Sources
from dataproxy.errors import NotAllowed, NotFound, Refused
from dataproxy.store.access import record_access
from dataproxy.store.agents import list_rules, set_rule

router = APIRouter(prefix="/v1")


@router.get("/agents")
def get_agents(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """The rules of each agent, defaults shown."""
    require(caller, "reviewer", "trainer")
    with services.database.read() as connection:
        rules = list_rules(connection, scope(caller), services.settle_s)
    put_list_on_record(services, caller, rules, "agents", purpose)
    return json_answer(rules)


@router.post("/agents")
def post_agent(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Change an agent's rules, on record; they hold from the next lease on."""
    require(caller)
    change = parse(body, AgentChange)
    if not change.tenant or not change.agent:
        raise Refused("a rule is for a `tenant` and an `agent` of it")
    if scope(caller) not in (None, change.tenant):
        raise NotFound(f"no agent {change.agent}")
    judged = isinstance(change.sources, Sources) and change.sources.judge is not None
    if judged and scope(caller) is not None:
        raise NotAllowed("a judge is an address that this process calls: an operator sets it")
    with services.database.write() as connection:
        set_rule(connection, change, services.now_us())
        record_access(connection, caller, change.tenant, "rules set", change.agent, services.now_us())
    with services.database.read() as connection:
        rules = list_rules(connection, change.tenant, services.settle_s)
    return json_answer(next(rule for rule in rules if rule.agent == change.agent))
