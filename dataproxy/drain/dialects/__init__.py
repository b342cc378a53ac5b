"""The dialects in which agents ask, each read into one normal form: that of chat completions.

Everything behind this package (identity, redaction, normalisation, assembly) sees the normal form alone, so that the same agent
makes the same trajectories whatever it speaks. The forms come from OpenAI's and Anthropic's references and from what SGLang serves.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dataproxy.drain.dialects import chat, completions, messages, responses
from dataproxy.drain.dialects.dialect import Dialect, NormalRequest
from dataproxy.errors import Unprocessable

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {"chat": chat, "completions": completions, "responses": responses, "messages": messages}
)
"""By ``RequestHalf.dialect``."""

__all__ = ["DIALECTS", "Dialect", "NormalRequest", "dialect_of"]


def dialect_of(name: str) -> Dialect:
    """The dialect called ``name``.

    Raises:
        Unprocessable: a newer gateway recorded it.
    """
    if name not in DIALECTS:
        raise Unprocessable("unknown_dialect")
    return DIALECTS[name]
