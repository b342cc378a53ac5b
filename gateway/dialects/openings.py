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


_items = msgspec.json.Decoder(list[_Item])
_item = msgspec.json.Decoder(_Item)
_pieces = msgspec.json.Decoder(list[msgspec.Raw])
_MOST_KNOWN_BYTES = 64 << 10
"""Of a connection's last opening that are remembered: an idle connection is cheap."""
_PROMPT_BYTES = 512
_INSTRUCT = ("system", "developer")


class Beginnings:
    """Finds the first instructions and the first user message behind them in lists of messages.

    Remembers how the lists of a conversation begin once it has gone on: the next one begins alike, and then need not be parsed.
    """

    __slots__ = ("_found", "_known")

    def __init__(self) -> None:
        self._known: bytes | None = None
        self._found: Opening = (b"", b"")

    def of(self, raw: msgspec.Raw) -> Opening:
        """Those of the JSON list ``raw``; empty where there are none."""
        known = self._known
        if known is None or bytes(memoryview(raw)[: len(known)]) != known:
            text = bytes(raw)
            before, self._found = self._found, _first_two(_decode(text))
            goes_on = self._found[1] and self._found == before
            self._known = _up_to_user(text) if goes_on else None
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


def _first_two(items: list[_Item]) -> Opening:
    system = b""
    for item in items:
        if item.role == "user":
            return system, bytes(item.content)
        if item.role in _INSTRUCT and not system:
            system = bytes(item.content)
    return system, b""


def _decode(text: bytes) -> list[_Item]:
    try:
        return _items.decode(text) if text else []
    except msgspec.DecodeError:
        return []


def _up_to_user(text: bytes) -> bytes | None:
    """The list ``text`` up to the end of its first user message; None where it has none, or that is far."""
    end = 1
    for raw in _pieces.decode(text):
        piece = bytes(raw)
        end = text.find(piece, end) + len(piece)  # nothing but commas and white space lies between two items
        if end > _MOST_KNOWN_BYTES:
            return None
        if _item.decode(piece).role == "user":
            return text[:end]
    return None
