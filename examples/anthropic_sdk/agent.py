"""An order desk on the Anthropic SDK: system blocks, tools, streaming, token counts.

It is an ordinary Anthropic client: a base URL and a key are all it knows of where its model runs.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Final, cast

from anthropic import Anthropic
from anthropic.types import Message, MessageParam, TextBlockParam, ToolParam, ToolResultBlockParam

from examples.orders import QUESTIONS, SYSTEM, TOOLS, use

EPILOG: Final = """
examples:
  python -m examples.anthropic_sdk.agent --base-url http://127.0.0.1:8080 --api-key $KEY --model Qwen3-0.6B
  python -m examples.anthropic_sdk.agent --stream "Where is order 4821?"

The engine must parse tool calls: headrace up --model DIRECTORY --engine-args "--tool-call-parser qwen25"
"""

SYSTEM_BLOCKS: Final[list[TextBlockParam]] = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
MESSAGE_TOOLS: Final[list[ToolParam]] = [
    {"name": name, "description": tool.description, "input_schema": tool.parameters} for name, tool in TOOLS.items()
]


class MessagesAgent:
    """One conversation. Keeps the history itself, and sends all of it each time."""

    def __init__(self, client: Anthropic, model: str, stream: bool, max_tokens: int = 256) -> None:
        self._client = client
        self._model = model
        self._stream = stream
        self._max_tokens = max_tokens
        self._messages: list[MessageParam] = []

    def ask(self, question: str) -> str:
        """Answer, using tools as often as the model wants them."""
        self._messages.append({"role": "user", "content": question})
        while True:
            message = self._create()
            self._messages.append({"role": "assistant", "content": message.content})
            print(f"  [{message.id} {message.stop_reason}, {message.usage.input_tokens} + {message.usage.output_tokens} tokens]")
            results: list[ToolResultBlockParam] = []
            for block in message.content:
                if block.type == "tool_use":
                    result = use(block.name, cast(dict[str, Any], block.input))
                    print(f"  {block.name}({block.input}) -> {result}")
                    results.append({"type": "tool_result", "tool_use_id": block.id, "content": result})
            if not results:
                return "".join(block.text for block in message.content if block.type == "text")
            self._messages.append({"role": "user", "content": results})

    def num_tokens(self) -> int:
        """What the conversation costs the model to read."""
        return self._client.messages.count_tokens(
            model=self._model, system=SYSTEM_BLOCKS, tools=MESSAGE_TOOLS, messages=self._messages
        ).input_tokens

    def _create(self) -> Message:
        if not self._stream:
            return self._client.messages.create(
                model=self._model,
                system=SYSTEM_BLOCKS,
                tools=MESSAGE_TOOLS,
                messages=self._messages,
                max_tokens=self._max_tokens,
            )
        with self._client.messages.stream(
            model=self._model,
            system=SYSTEM_BLOCKS,
            tools=MESSAGE_TOOLS,
            messages=self._messages,
            max_tokens=self._max_tokens,
        ) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
            print()
            return stream.get_final_message()


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("questions", nargs="*", default=QUESTIONS, metavar="QUESTION", help="what the customer asks, one turn after another")
    add("--base-url", default=os.environ.get("ANTHROPIC_BASE_URL"), help="where the model is, without /v1 (ANTHROPIC_BASE_URL)")
    add("--api-key", default=os.environ.get("ANTHROPIC_API_KEY"), help="the agent's key (ANTHROPIC_API_KEY)")
    add("--model", help="model name (the first that the server lists)")
    add("--stream", action="store_true", help="show answers as they come")
    options = parser.parse_args(arguments)
    if not options.base_url or not options.api_key:
        parser.error("give --base-url and --api-key, or set ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    with Anthropic(base_url=options.base_url, api_key=options.api_key) as client:
        model = options.model or next(iter(client.models.list())).id
        agent = MessagesAgent(client, model, options.stream)
        for question in options.questions:
            print(f"customer: {question}")
            print(f"desk: {agent.ask(question)}")
        print(f"The conversation has {agent.num_tokens()} tokens.")


if __name__ == "__main__":
    main()
