"""How a conversation opens, by dialect: what stays the same through all its calls, and so names it when the agent does not.

Each function takes a request's top-level fields, and what is remembered of the request before, and gives the raw JSON of the
instructions and of the first user input. A field of another type than expected gives empty bytes: the engine says what is wrong.
"""

import msgspec

Opening = tuple[bytes, bytes]
Fields = dict[str, msgspec.Raw]

_ABSENT = msgspec.Raw()


class _Item(msgspec.Struct, gc=False):
    role: str = ""
    content: msgspec.Raw = _ABSENT


_list = msgspec.json.Decoder(list[msgspec.Raw])
_item = msgspec.json.Decoder(_Item)
_MOST_KNOWN_BYTES = 64 << 10
"""Of a connection's last opening that are remembered: an idle connection is cheap."""
_PROMPT_BYTES = 512
_INSTRUCT = ("system", "developer")


class Beginnings:
    """Finds the first instructions and the first user message behind them in lists of messages.

    Remembers where the last one had them: the next list of the same conversation begins alike, and then need not be parsed.
    """

    __slots__ = ("_found", "_known")

    def __init__(self) -> None:
        self._known: bytes | None = None
        self._found: Opening = (b"", b"")

    def of(self, raw: msgspec.Raw) -> Opening:
        """Those of the JSON list ``raw``; empty where there are none."""
        known = self._known
        if known is None or bytes(memoryview(raw)[: len(known)]) != known:
            self._found, end = _first_two(bytes(raw))
            self._known = bytes(memoryview(raw)[:end]) if 0 < end <= _MOST_KNOWN_BYTES else None
        return self._found


def chat(fields: Fields, beginnings: Beginnings) -> Opening:
    """The first system (or developer) message and the first user message."""
    return beginnings.of(fields.get("messages", _ABSENT))


def messages(fields: Fields, beginnings: Beginnings) -> Opening:
    """``system``, and the first user message."""
    return bytes(fields.get("system", _ABSENT)), beginnings.of(fields.get("messages", _ABSENT))[1]


def responses(fields: Fields, beginnings: Beginnings) -> Opening:
    """``instructions`` (or the first system item of ``input``), and ``input`` itself or its first user item."""
    given = fields.get("input", _ABSENT)
    text = bytes(given)
    system, user = beginnings.of(given) if text.startswith(b"[") else (b"", b"")
    return bytes(fields.get("instructions", _ABSENT)) or system, text if text.startswith(b'"') else user


def completions(fields: Fields, beginnings: Beginnings) -> Opening:
    """How the prompt begins: nothing says which part of it comes back in the next call, but its beginning does."""
    return b"", bytes(fields.get("prompt", _ABSENT))[:_PROMPT_BYTES]


def nothing(fields: Fields, beginnings: Beginnings) -> Opening:
    """Calls that belong to no conversation."""
    return b"", b""


def _first_two(text: bytes) -> tuple[Opening, int]:
    """(those of the list ``text``, the byte behind the user's message; 0 where it has none)."""
    system, end = b"", 1
    try:
        for raw in _list.decode(text) if text else []:
            item = _item.decode(raw)
            piece = bytes(raw)
            end = text.find(piece, end) + len(piece)
            if item.role == "user":
                return (system, bytes(item.content)), end
            if item.role in _INSTRUCT and not system:
                system = bytes(item.content)
    except msgspec.DecodeError:
        return (b"", b""), 0
    return (system, b""), 0
