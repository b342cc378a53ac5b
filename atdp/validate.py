"""The rules of the protocol that types alone cannot say. Every error names its field.

Types, lengths and patterns of single fields stand at the fields of ``atdp.events`` and in the JSON Schema made from them; here is
what relates several fields: times in order, arrays of one length, what a kind needs.
"""

import math
import re
from typing import Any, Final

import msgspec

from atdp.errors import InvalidEvent
from atdp.events import Event, TokenRecord

_PATH: Final = re.compile(r"^(?P<what>.*) - at `\$(?P<path>.*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"missing required field `(\w+)`")
_SIZES: Final = {"logprobs": 4, "versions": 4, "output_altered": 1}
_MESSAGES: Final = (("o", "messages"), ("a", "messages"))


def named_field(error: str) -> tuple[str, str]:
    """(field, message) of a msgspec error: ``Expected `int`, got `str` - at `$.seq``` → ``("seq", "seq: expected …")``."""
    found = _PATH.match(error)
    what, path = (found["what"], found["path"].lstrip(".")) if found else (error, "")
    if missing := _MISSING.search(what):
        path = ".".join(part for part in (path, missing[1]) if part)
        return path, f"{path}: is missing"
    return path, f"{path}: {what[:1].lower()}{what[1:]}" if path else what


def check(event: Event) -> None:
    """Hold ``event`` to the rules.

    Raises:
        InvalidEvent: it breaks one.
    """
    if event.ended_at < event.started_at:
        raise _wrong("ended_at", "the event ends before it starts")
    for part, name in _MESSAGES:
        if not isinstance(getattr(event, part).get(name, []), list):
            raise _wrong(f"{part}.{name}", "expected a list of messages")
    for place, span in enumerate(event.spans):
        if not 0 <= span.start <= span.end:
            raise _wrong(f"spans[{place}].start", "a span must lie in its text, 0 <= start <= end")
    for place, reward in enumerate(event.r):
        _check_reward(reward, f"r[{place}]", is_late=event.kind == "reward")
    if event.kind == "reward" and not event.r:
        raise _wrong("r", "an event of kind reward needs one: target, name, value, source")
    _check_tokens(event.a.get("tokens", []))


def check_tokens(record: TokenRecord, field: str = "a.tokens") -> None:
    """Arrays of one segment have one length: ids, logprobs, versions, flags.

    Raises:
        InvalidEvent: they don't; such a record is never padded.
    """
    length, rest = divmod(len(record.output_ids), 4)
    if rest:
        raise _wrong(f"{field}.output_ids", "not a whole number of int32")
    for name, size in _SIZES.items():
        if len(getattr(record, name)) != length * size:
            raise _wrong(f"{field}.{name}", f"{len(getattr(record, name)) / size:g} entries for {length} output ids")
    if len(record.prompt_ids) != 4 * len(record.prompt_altered):
        raise _wrong(
            f"{field}.prompt_altered", f"{len(record.prompt_altered)} entries for {len(record.prompt_ids) / 4:g} prompt ids"
        )


def _check_tokens(tokens: Any) -> None:
    if not isinstance(tokens, list):
        raise _wrong("a.tokens", "expected a list, one entry a choice")
    for place, item in enumerate(tokens):
        try:
            record = msgspec.convert(item, TokenRecord)
        except msgspec.ValidationError as error:
            field, message = named_field(str(error))
            raise _wrong(f"a.tokens[{place}]" + (f".{field}" if field else ""), message) from error
        check_tokens(record, f"a.tokens[{place}]")


def _check_reward(reward: dict[str, Any], field: str, is_late: bool) -> None:
    value = reward.get("value")
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value)):
        raise _wrong(f"{field}.value", "expected a finite number")
    for name in ("target", "name", "source") if is_late else ():
        if not isinstance(reward.get(name), str) or not reward[name]:
            raise _wrong(f"{field}.{name}", "expected a text: a late reward says what it rewards, as what, and who says so")
    if is_late and value is None and not reward.get("label") and not reward.get("correction"):
        raise _wrong(f"{field}.value", "a reward needs a value, a label or a correction")


def _wrong(field: str, why: str) -> InvalidEvent:
    return InvalidEvent(f"{field}: {why}", field)
