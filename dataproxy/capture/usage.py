"""How many tokens a call used, by the engine's record of it. Gateway and drain count with this, so that their sums agree."""

import msgspec

BYTES_PER_TOKEN = 4
"""English text in JSON; for calls whose record nobody has."""
_BYTES_PER_ID = 4


class _Choice(msgspec.Struct):
    output_ids: str = ""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class _Record(msgspec.Struct):
    prompt_ids: str = ""
    choices: list[_Choice] = []
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Record).decode


def num_tokens(record: bytes) -> int | None:
    """Prompt and output tokens of all choices; None where ``record`` is empty or not of its form."""
    try:
        read = _decode(record) if record else None
    except msgspec.DecodeError:
        return None
    if read is None:
        return None
    if read.usage is not None:
        return read.usage.total_tokens or read.usage.prompt_tokens + read.usage.completion_tokens
    return _num_ids(read.prompt_ids) + sum(_num_ids(choice.output_ids) for choice in read.choices)


def estimate(body_bytes: int) -> int:
    """Tokens of a request of ``body_bytes``, for want of a record."""
    return body_bytes // BYTES_PER_TOKEN


def _num_ids(base64: str) -> int:
    return (len(base64) * 3 // 4 - base64.endswith("=") - base64.endswith("==")) // _BYTES_PER_ID
