"""Which tool-call format a model's chat template speaks, where SGLang does not find out by itself.

Owns two formats that `--tool-call-parser auto` of SGLang 0.5.23 passes over: Hermes' JSON between `<tool_call>` tags (Hermes,
Qwen2.5 and what was made of them) and Llama 3's. All else is left to SGLang. Place in the path: before step 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

FROM_TEMPLATE: Final = "auto"

_HERMES: Final = '"arguments": <args-json-object>'
_OTHERS: Final = ("enable_thinking", "<function=", "<arg_key>")
"""Marks of formats that borrow Hermes' tags and that SGLang knows (Qwen3, Qwen3-Coder, GLM)."""


def tool_call_parser(model_path: Path) -> str:
    """SGLang's name of the format, or `auto` where SGLang is to look."""
    source = chat_template(model_path)
    if _HERMES in source and not any(mark in source for mark in _OTHERS):
        return "hermes"
    if "<|start_header_id|>" in source and "Environment: ipython" in source:
        return "llama3"
    return FROM_TEMPLATE


def chat_template(model_path: Path) -> str:
    """The text of the model's templates; empty where there is none (or the path names a model that is not here yet)."""
    jinja, config = model_path / "chat_template.jinja", model_path / "tokenizer_config.json"
    if jinja.is_file():
        return jinja.read_text()
    found = json.loads(config.read_text()).get("chat_template") if config.is_file() else None
    return found if isinstance(found, str) else "\n".join(one["template"] for one in found or [])
