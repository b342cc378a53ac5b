"""Each example explains itself and wants to be told where its model is."""

import pytest

from examples.anthropic_sdk import agent as anthropic_agent
from examples.openai_sdk import agent as openai_agent

AGENTS = [pytest.param(openai_agent, "OPENAI", id="openai"), pytest.param(anthropic_agent, "ANTHROPIC", id="anthropic")]


@pytest.mark.parametrize(("agent", "prefix"), AGENTS)
def test_help_shows_examples(agent: object, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        agent.parse_arguments(["--help"])  # type: ignore[attr-defined]
    assert ended.value.code == 0
    assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize(("agent", "prefix"), AGENTS)
def test_without_a_key_it_says_what_is_missing(
    agent: object, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(f"{prefix}_API_KEY", raising=False)
    with pytest.raises(SystemExit) as ended:
        agent.parse_arguments(["--base-url", "http://x"])  # type: ignore[attr-defined]
    assert ended.value.code == 2
    assert f"{prefix}_API_KEY" in capsys.readouterr().err


def test_addresses_and_keys_come_from_the_sdks_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://a")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    options = anthropic_agent.parse_arguments(["--stream", "Where is order 1?"])
    assert (options.base_url, options.api_key, options.questions, options.stream) == ("http://a", "k", ["Where is order 1?"], True)
