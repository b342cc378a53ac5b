"""OpenAI's legacy completions: the prompt is what the model observes, as one user's message; each text is an answer."""

from collections.abc import Iterable
from typing import Any

from dataproxy.drain.dialects.dialect import NormalRequest, joined_choices, objects, text_of

_PER_CHUNK = frozenset(("choices", "usage"))


def request(body: dict[str, Any]) -> NormalRequest:
    """The prompt, a text or several, as one message. A prompt of ids stays out of it: only the masked tokens are kept."""
    rest = {name: value for name, value in body.items() if name != "prompt"}
    message = {"role": "user", "content": _content(body.get("prompt"))}
    return NormalRequest({**rest, "messages": [message]}, text_of(body.get("user")))


def _content(prompt: Any) -> Any:
    if not isinstance(prompt, list):
        return prompt
    if len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0]
    if all(isinstance(item, str) for item in prompt):
        return [{"type": "text", "text": item} for item in prompt]
    rows = prompt if all(isinstance(item, list) for item in prompt) else [prompt]
    return [{"type": "token_ids", "num_tokens": len(row)} for row in rows]


def answer(value: dict[str, Any]) -> dict[str, Any]:
    """Each choice's text as an assistant's message."""
    if not isinstance(value.get("choices"), list):
        return value
    return {**value, "choices": [_choice(choice) for choice in objects(value["choices"])]}


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in choice.items() if name != "text"}
    return {"index": 0, "finish_reason": None} | rest | {"message": {"role": "assistant", "content": choice.get("text")}}


def joined(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The texts of each choice put together."""
    return joined_choices(events, _PER_CHUNK, _add_part)


def _add_part(choices: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    index = part.get("index", 0)
    choice = choices.setdefault(index, {"index": index, "text": "", "finish_reason": None})
    choice["text"] += text_of(part.get("text"))
    choice |= {key: value for key, value in part.items() if value is not None and key not in ("index", "text")}
