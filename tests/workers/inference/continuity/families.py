"""Model families as the tests of continuity see them: template, tokenizer, and how a model of the family writes an answer.

The tokenizers are byte-level BPE trained here, small, with the family's special tokens. `sample` gives ids that decode to a
text and differ from its canonical encoding, as sampled ids do.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parents[3] / "templates"
_CORPUS = [
    '{"name": "search", "arguments": {"query": "where is the file", "limit": 3}}',
    "the answer is that there are two of them\n",
] * 3


@dataclass(frozen=True)
class Draft:
    """An answer before it is written out: reasoning, text, and calls as (name, arguments)."""

    content: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reasoning: str = ""


def _tagged(draft: Draft) -> str:
    calls = [f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in draft.calls]
    return "\n".join([*([draft.content] if draft.content else []), *calls])


def _thinking(draft: Draft) -> str:
    return f"<think>\n{draft.reasoning}\n</think>\n\n{_tagged(draft)}"


def _opened(draft: Draft) -> str:
    return f"{draft.reasoning}\n</think>\n\n{_tagged(draft)}"


def _llama(draft: Draft) -> str:
    calls = [json.dumps({"name": name, "parameters": arguments}) for name, arguments in draft.calls[:1]]
    return calls[0] if calls else draft.content


def _mistral(draft: Draft) -> str:
    return draft.content + "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in draft.calls)


def _mistral_list(draft: Draft) -> str:
    calls = [{"name": name, "arguments": arguments} for name, arguments in draft.calls]
    return f"[TOOL_CALLS] {json.dumps(calls)}" if calls else f" {draft.content}"


def _parse_tagged(text: str) -> tuple[str, list[tuple[str, Any]]]:
    found = [json.loads(call) for call in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.DOTALL)]
    return text.partition("<tool_call>")[0], [(call["name"], call["arguments"]) for call in found]


def _parse_llama(text: str) -> tuple[str, list[tuple[str, Any]]]:
    if not text.startswith('{"name": '):
        return text, []
    call = json.loads(text)
    return "", [(call["name"], call["parameters"])]


def _parse_mistral(text: str) -> tuple[str, list[tuple[str, Any]]]:
    content, *calls = text.split("[TOOL_CALLS]")
    pairs = [call.split("[ARGS]", 1) for call in calls]
    return content, [(name, json.loads(arguments)) for name, arguments in pairs]


def _parse_mistral_list(text: str) -> tuple[str, list[tuple[str, Any]]]:
    content, _, calls = text.partition("[TOOL_CALLS] ")
    return content, [(call["name"], call["arguments"]) for call in json.loads(calls)] if calls else []


_BYTES = (pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), pre_tokenizers.ByteLevel.alphabet())
_METASPACE = (
    pre_tokenizers.Metaspace(prepend_scheme="first"),
    decoders.Metaspace(prepend_scheme="first"),
    list(map(chr, range(33, 127))),
)
"""As sentencepiece tokenizers: a text gets a space at its beginning, the pieces after a special token do not."""


@dataclass(frozen=True)
class Family:
    """`answer`: a pattern for one finished answer in a rendered text, its body the group. `writes_calls`: the template renders an
    answer's calls and text in full, so bodies can be compared; `max_calls` in one answer."""

    name: str
    template: str
    specials: tuple[str, ...]
    stop: str
    write: Callable[[Draft], str]
    parse: Callable[[str], tuple[str, list[tuple[str, Any]]]]
    answer: str
    bos: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    writes_calls: bool = True
    max_calls: int = 3
    has_system: bool = True
    is_byte_level: bool = True

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer, backend.decoder, alphabet = _BYTES if self.is_byte_level else _METASPACE
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
        backend.train_from_iterator(_CORPUS, trainer)
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in self.specials])
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend, eos_token=self.stop, bos_token=self.bos, clean_up_tokenization_spaces=False
        )
        tokenizer.chat_template = self.template
        return tokenizer

    def sample(self, text: str, chance: random.Random) -> list[int]:
        """Ids that decode to `text`, cut at random places, so that many are not the ids of its encoding."""
        if not self.is_byte_level:
            return list(self.tokenizer.encode(self.stop + text, add_special_tokens=False)[1:])
        ids: list[int] = []
        for piece in re.split("(" + "|".join(map(re.escape, self.specials)) + ")", text):
            while piece:
                size = len(piece) if piece in self.specials else chance.randint(1, 8)
                ids += self.tokenizer.encode(piece[:size], add_special_tokens=False)
                piece = piece[size:]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))


def _read(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
_CHATML_ANSWER = r"<\|im_start\|>assistant(?:\n)?(.*?)<\|im_end\|>"
_LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>")
_MISTRAL = ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]")
_MISTRAL_TOOLS = ("[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
_MISTRAL_ANSWER = r"(?:\[/INST\]|\[/TOOL_RESULTS\])((?:(?!\[INST\]|\[/INST\]|\[TOOL_RESULTS\]).)*?)</s>"

_QWEN3 = _read("qwen3")
_END_OF_QWEN3 = _QWEN3[_QWEN3.rindex("{%- if add_generation_prompt %}") :]
_ALWAYS_THINKS = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"

SMOLLM2 = Family("smollm2", _read("smollm2"), _CHATML[:3], "<|im_end|>", _tagged, _parse_tagged, _CHATML_ANSWER, writes_calls=False)
QWEN2_5 = Family("qwen2.5", _read("qwen2.5"), _CHATML[:5], "<|im_end|>", _tagged, _parse_tagged, _CHATML_ANSWER)
QWEN3 = Family("qwen3-thinking", _QWEN3, _CHATML, "<|im_end|>", _thinking, _parse_tagged, _CHATML_ANSWER)
QWEN3_OFF = Family(
    "qwen3-not-thinking", _QWEN3, _CHATML, "<|im_end|>", _tagged, _parse_tagged, _CHATML_ANSWER, kwargs={"enable_thinking": False}
)
QWEN3_2507 = Family(
    "qwen3-2507-thinking",
    _QWEN3.replace(_END_OF_QWEN3, _ALWAYS_THINKS),
    _CHATML,
    "<|im_end|>",
    _opened,
    _parse_tagged,
    _CHATML_ANSWER,
)
LLAMA3_1 = Family(
    "llama3.1", _read("llama3.1"), _LLAMA, "<|eot_id|>", _llama, _parse_llama,
    r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n(.*?)<\|eot_id\|>", "<|begin_of_text|>", max_calls=1,
)  # fmt: skip
MISTRAL = Family("mistral", _read("mistral"), _MISTRAL + _MISTRAL_TOOLS, "</s>", _mistral, _parse_mistral, _MISTRAL_ANSWER, "<s>")
MISTRAL_V0_3 = Family(
    "mistral-v0.3", _read("mistral-v0.3"), _MISTRAL + _MISTRAL_TOOLS, "</s>", _mistral_list, _parse_mistral_list, _MISTRAL_ANSWER,
    "<s>", has_system=False,
)  # fmt: skip
CHATML_PIECES = replace(QWEN2_5, name="chatml-pieces", is_byte_level=False)
FAMILIES = (SMOLLM2, QWEN2_5, QWEN3, QWEN3_OFF, QWEN3_2507, LLAMA3_1, MISTRAL, MISTRAL_V0_3)
