"""Hermes Agent with a terminal, working through a list of requests in one conversation.

Run it with the Python that has `hermes-agent` installed, which wants an environment of its own:

    python3.11 -m venv hermes && hermes/bin/pip install hermes-agent==0.19.0

A base URL and a key are all that Hermes knows of where its model runs. It keeps its own files under HERMES_HOME (~/.hermes).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

from run_agent import AIAgent

REQUESTS: Final = ("How many tickets are in the folder inbox?", "Note it in the file count.txt.", "Thank you. Anything left?")

EPILOG: Final = """
examples:
  hermes/bin/python examples/hermes/inbox.py --base-url http://127.0.0.1:8080/v1 --api-key $KEY --model Qwen3-0.6B
  hermes/bin/python examples/hermes/inbox.py --toolsets terminal,file,todo "What is in this folder?"
  hermes/bin/python examples/hermes/inbox.py - < requests.txt

Hermes runs what the model asks for, in the folder that it is started in. The engine must parse tool calls and serve a context of
64,000 tokens or more: headrace up --model DIRECTORY --engine-args "--tool-call-parser hermes"
"""


def work(agent: AIAgent, requests: Iterable[str], pause_s: float) -> bool:
    """Ask one thing after another, with a pause before each but the first. False where Hermes gave up on one."""
    history: list[dict[str, Any]] = []
    for number, request in enumerate(requests):
        time.sleep(pause_s if number else 0.0)
        print(f"user: {request}", flush=True)
        result = agent.run_conversation(request, conversation_history=history)
        for message in result["messages"][len(history) :]:
            for call in message.get("tool_calls") or []:
                print(f"  {call['function']['name']}({call['function']['arguments']})")
            if message["role"] == "tool":
                print(f"  -> {message['content']}")
        print(f"hermes: {result['final_response']}", flush=True)
        if not result["completed"]:
            print(f"gave up: {result['turn_exit_reason']}", file=sys.stderr)
            return False
        history = result["messages"]
    return True


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "requests",
        nargs="*",
        default=REQUESTS,
        metavar="REQUEST",
        help="what to ask for, one turn after another; `-` alone: the lines of standard input",
    )
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL"), help="where the model is, ending in /v1 (OPENAI_BASE_URL)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="the agent's key (OPENAI_API_KEY)")
    add("--model", required=True, help="model name")
    add("--api-mode", choices=("chat_completions", "codex_responses", "anthropic_messages"), help="Hermes' own choice unless given")
    add("--toolsets", default="terminal", help="Hermes' toolsets, separated by commas (%(default)s)")
    add("--max-iterations", type=int, default=12, help="most model calls for one request (%(default)s)")
    add("--pause-s", type=float, default=0.0, help="seconds that a person reads before the next request (%(default)s)")
    options = parser.parse_args(arguments)
    if not options.base_url or not options.api_key:
        parser.error("give --base-url and --api-key, or set OPENAI_BASE_URL and OPENAI_API_KEY")
    return options


def main() -> None:
    options = parse_arguments()
    agent = AIAgent(
        base_url=options.base_url,
        api_key=options.api_key,
        model=options.model,
        api_mode=options.api_mode,
        enabled_toolsets=options.toolsets.split(","),
        max_iterations=options.max_iterations,
        quiet_mode=True,
    )
    spoken = (line.strip() for line in sys.stdin)
    try:
        done = work(agent, spoken if list(options.requests) == ["-"] else options.requests, options.pause_s)
    finally:
        agent.close()
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
