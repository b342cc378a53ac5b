"""The order desk's tools, as agents call them."""

import json

import pytest

from examples.orders import TOOLS, use


@pytest.mark.parametrize("arguments", ['{"order": 4821}', {"order": 4821}])
def test_a_tool_takes_arguments_as_json_or_decoded(arguments: str | dict[str, int]) -> None:
    assert json.loads(use("order_status", arguments)) == {"order": 4821, "status": "in transit", "arrives": "Thursday"}


def test_only_lost_orders_are_refunded() -> None:
    refunded = [json.loads(use("refund", {"order": order, "reason": "asked"}))["refunded"] for order in (2090, 1177, 1)]
    assert refunded == [True, False, False]


@pytest.mark.parametrize(
    ("name", "arguments"), [("order_status", "{"), ("order_status", '{"number": 1}'), ("order_status", "[1]"), ("burn", "{}")]
)
def test_what_a_model_gets_wrong_is_told_to_it(name: str, arguments: str) -> None:
    assert "error" in json.loads(use(name, arguments))


def test_schemas_are_strict() -> None:
    for tool in TOOLS.values():
        assert tool.parameters["additionalProperties"] is False
        assert tool.parameters["required"] == list(tool.parameters["properties"])
