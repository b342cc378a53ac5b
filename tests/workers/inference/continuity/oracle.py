"""What must hold for every prompt, told without continuity's own code: by comparing ids and by cutting texts with patterns."""

import json
import re
from collections.abc import Iterable
from typing import Any

from tests.workers.inference.continuity.engine import Exchange
from tests.workers.inference.continuity.families import Family

_REASONING = re.compile(r"<think>.*?</think>\s*|\A(?:(?!<think>).)*?</think>\s*", re.DOTALL)
_OPENER = re.compile(r"<think>\s*(</think>\s*)?\Z")


def check(exchange: Exchange, earlier: Iterable[Exchange], family: Family) -> None:
    """Either the ids extend an earlier prompt + output and mean the stock text, or they are the stock encoding."""
    if not exchange.is_extended:
        assert exchange.prompt_ids == exchange.stock_ids
        return
    lengths = [len(known.ids) for known in earlier if exchange.prompt_ids[: len(known.ids)] == known.ids]
    assert lengths, "the prompt begins with no earlier prompt and output"
    new = exchange.prompt_ids[max(lengths) :]
    assert new == exchange.stock_ids[-len(new) :]
    assert meaning(family.decode(exchange.prompt_ids), family) == meaning(exchange.stock_text, family)


def meaning(text: str, family: Family) -> str:
    """A rendered prompt with each answer in one canonical writing, its reasoning left out.

    Where a template does not write answers in full (calls or text missing), they are blanked: there the sampled ids say more
    than the rendering.
    """
    pattern = re.compile(family.answer, re.DOTALL)
    return _OPENER.sub("", pattern.sub(lambda answer: _canonical(answer, family), text))


def _canonical(answer: re.Match[str], family: Family) -> str:
    body = _REASONING.sub("", answer[1]).strip()
    if family.writes_calls:
        content, calls = family.parse(re.sub(r', "id": "\w{9}"', "", body))
        body = json.dumps([content.strip(), _numbers(calls)], sort_keys=True)
    else:
        body = ""
    start, end = answer.start(1) - answer.start(), answer.end(1) - answer.start()
    return answer[0][:start] + body + answer[0][end:]


def _numbers(value: Any) -> Any:
    """1.0 is 1 in JSON."""
    return json.loads(
        json.dumps(value), parse_float=lambda number: int(float(number)) if float(number).is_integer() else float(number)
    )
