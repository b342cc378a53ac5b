"""How a conversation opens, by dialect: what stays the same through all its calls, and so names it when the agent does not.

Each function takes a request's top-level fields and gives the raw JSON of the instructions and of the first user input. A field of
another type than expected gives empty bytes: the engine says what is wrong with it.
"""

import msgspec

Opening = tuple[bytes, bytes]
Fields = dict[str, msgspec.Raw]

_ABSENT = msgspec.Raw()


class _Item(msgspec.Struct, gc=False):
    role: str = ""
    content: msgspec.Raw = _ABSENT


_items = msgspec.json.Decoder(list[_Item])
_PROMPT_BYTES = 512
_INSTRUCT = ("system", "developer")


def chat(fields: Fields) -> Opening:
    """The first system (or developer) message and the first user message."""
    return _first_two(_decode(fields.get("messages", _ABSENT)))


def messages(fields: Fields) -> Opening:
    """``system``, and the first user message."""
    return bytes(fields.get("system", _ABSENT)), _first_two(_decode(fields.get("messages", _ABSENT)))[1]


def responses(fields: Fields) -> Opening:
    """``instructions`` (or the first system item of ``input``), and ``input`` itself or its first user item."""
    text = bytes(fields.get("input", _ABSENT))
    system, user = _first_two(_decode(text) if text.startswith(b"[") else [])
    return bytes(fields.get("instructions", _ABSENT)) or system, text if text.startswith(b'"') else user


def completions(fields: Fields) -> Opening:
    """How the prompt begins: nothing says which part of it comes back in the next call, but its beginning does."""
    return b"", bytes(fields.get("prompt", _ABSENT))[:_PROMPT_BYTES]


def nothing(fields: Fields) -> Opening:
    """Calls that belong to no conversation."""
    return b"", b""


def _first_two(items: list[_Item]) -> Opening:
    system = user = None
    for item in items:
        if item.role == "user":
            user = user or item
        elif item.role in _INSTRUCT:
            system = system or item
        if user and system:
            break
    return bytes(system.content) if system else b"", bytes(user.content) if user else b""


def _decode(raw: msgspec.Raw | bytes) -> list[_Item]:
    try:
        return _items.decode(raw) if raw else []
    except msgspec.DecodeError:
        return []
