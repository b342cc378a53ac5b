"""An order desk on the OpenAI SDK: tools, streaming, structured output, by chat completions or by the Responses API.

It is an ordinary OpenAI client: a base URL and a key are all it knows of where its model runs.
"""

from __future__ import annotations

import argparse
import os
from typing import Final, cast

from openai import OpenAI, omit
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam, ParsedChatCompletion
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall, ResponseInputParam
from pydantic import BaseModel

from examples.orders import QUESTIONS, SUMMARY, SYSTEM, TOOLS, use

EPILOG = """
examples:
  python -m examples.openai_sdk.agent --base-url http://127.0.0.1:8080/v1 --api-key $KEY --model Qwen3-0.6B
  python -m examples.openai_sdk.agent --api responses --stream "Where is order 4821?"

The engine must parse tool calls: headrace up --model DIRECTORY --engine-args "--tool-call-parser qwen25"
"""


CHAT_TOOLS: Final[list[ChatCompletionFunctionToolParam]] = [
    {"type": "function", "function": {"name": name, "description": tool.description, "parameters": tool.parameters, "strict": True}}
    for name, tool in TOOLS.items()
]
RESPONSE_TOOLS: Final[list[FunctionToolParam]] = [
    {"type": "function", "name": name, "description": tool.description, "parameters": tool.parameters, "strict": False}
    for name, tool in TOOLS.items()
]


MAX_TOKENS: Final = 512
"""Longest answer."""


class Summary(BaseModel):
    """What is filed of a conversation."""

    orders: list[int]
    refunded: list[int]


class ChatAgent:
    """Keeps the history itself, and sends all of it each time."""

    def __init__(self, client: OpenAI, model: str, stream: bool) -> None:
        self._client = client
        self._model = model
        self._stream = stream
        self._messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": SYSTEM}]

    def ask(self, question: str) -> str:
        """Answer, using tools as often as the model wants them."""
        self._messages.append({"role": "user", "content": question})
        while True:
            answer = self._complete()
            message = answer.choices[0].message
            self._messages.append(cast(ChatCompletionMessageParam, message.to_dict()))
            print(f"  [{answer.id} {answer.choices[0].finish_reason}]")
            for call in message.tool_calls or []:
                result = use(call.function.name, call.function.arguments)
                print(f"  {call.function.name}({call.function.arguments}) -> {result}")
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not message.tool_calls:
                return message.content or ""

    def sum_up(self) -> Summary | None:
        """What is filed of the conversation."""
        self._messages.append({"role": "user", "content": SUMMARY})
        answer = self._client.chat.completions.parse(
            model=self._model,
            messages=self._messages,
            max_completion_tokens=MAX_TOKENS,
            tools=CHAT_TOOLS,
            response_format=Summary,
        )
        print(f"  [{answer.id} {answer.choices[0].finish_reason}]")
        return answer.choices[0].message.parsed

    def _complete(self) -> ParsedChatCompletion[None]:
        if not self._stream:
            return self._client.chat.completions.parse(
                model=self._model, messages=self._messages, max_completion_tokens=MAX_TOKENS, tools=CHAT_TOOLS
            )
        with self._client.chat.completions.stream(
            model=self._model, messages=self._messages, max_completion_tokens=MAX_TOKENS, tools=CHAT_TOOLS
        ) as stream:
            for event in stream:
                if event.type == "content.delta":
                    print(event.delta, end="", flush=True)
            print()
            return stream.get_final_completion()


class ResponsesAgent:
    """Leaves the history with the server, and names the response that it goes on from."""

    def __init__(self, client: OpenAI, model: str, stream: bool) -> None:
        self._client = client
        self._model = model
        self._stream = stream
        self._previous: str | None = None

    def ask(self, question: str) -> str:
        """Answer, using tools as often as the model wants them."""
        items: ResponseInputParam = [{"role": "user", "content": question}]
        while True:
            response = self._respond(items)
            self._previous = response.id
            print(f"  [{response.id} {response.status}]")
            items = []
            for call in response.output:
                if isinstance(call, ResponseFunctionToolCall):
                    result = use(call.name, call.arguments)
                    print(f"  {call.name}({call.arguments}) -> {result}")
                    items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
            if not items:
                return response.output_text

    def sum_up(self) -> Summary | None:
        """What is filed of the conversation."""
        response = self._client.responses.parse(
            model=self._model,
            input=SUMMARY,
            previous_response_id=self._previous,
            instructions=SYSTEM,
            max_output_tokens=MAX_TOKENS,
            tools=RESPONSE_TOOLS,
            text_format=Summary,
        )
        print(f"  [{response.id} {response.status}]")
        return response.output_parsed

    def _respond(self, items: ResponseInputParam) -> Response:
        previous = self._previous if self._previous else omit
        if not self._stream:
            return self._client.responses.create(
                model=self._model,
                input=items,
                previous_response_id=previous,
                instructions=SYSTEM,
                max_output_tokens=MAX_TOKENS,
                tools=RESPONSE_TOOLS,
            )
        with self._client.responses.stream(
            model=self._model,
            input=items,
            previous_response_id=previous,
            instructions=SYSTEM,
            max_output_tokens=MAX_TOKENS,
            tools=RESPONSE_TOOLS,
        ) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    print(event.delta, end="", flush=True)
            print()
            return stream.get_final_response()


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("questions", nargs="*", default=QUESTIONS, metavar="QUESTION", help="what the customer asks, one turn after another")
    add("--base-url", default=os.environ.get("OPENAI_BASE_URL"), help="where the model is, ending in /v1 (OPENAI_BASE_URL)")
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="the agent's key (OPENAI_API_KEY)")
    add("--model", help="model name (the first that the server lists)")
    add("--api", choices=("chat", "responses"), default="chat", help="which of OpenAI's two APIs (%(default)s)")
    add("--stream", action="store_true", help="show answers as they come")
    options = parser.parse_args(arguments)
    if not options.base_url or not options.api_key:
        parser.error("give --base-url and --api-key, or set OPENAI_BASE_URL and OPENAI_API_KEY")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    with OpenAI(base_url=options.base_url, api_key=options.api_key) as client:
        model = options.model or next(iter(client.models.list())).id
        kind = ChatAgent if options.api == "chat" else ResponsesAgent
        agent = kind(client, model, options.stream)
        for question in options.questions:
            print(f"customer: {question}")
            print(f"desk: {agent.ask(question)}")
        print(f"filed: {agent.sum_up()}")


if __name__ == "__main__":
    main()
