"""How far a tenant's file has come: rows counted while its bytes pass by."""

_BLOCK = 512
_NAME, _SIZE = slice(0, 100), slice(124, 135)


class RowCounter:
    """Fed with the bytes of a tar in pieces of any size; ``num_rows`` is the number of lines of its ``.jsonl`` files so far."""

    def __init__(self) -> None:
        self.num_rows = 0
        self._head = b""
        self._data = 0
        self._padding = 0
        self._counts = False

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(piece):
            if self._data or self._padding:
                at += self._pass(piece, at)
                continue
            taken = piece[at : at + _BLOCK - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == _BLOCK:
                self._open(self._head)
                self._head = b""

    def _pass(self, piece: bytes, at: int) -> int:
        if self._data:
            taken = min(self._data, len(piece) - at)
            self._data -= taken
            self.num_rows += piece.count(b"\n", at, at + taken) if self._counts else 0
            return taken
        taken = min(self._padding, len(piece) - at)
        self._padding -= taken
        return taken

    def _open(self, head: bytes) -> None:
        name = head[_NAME].rstrip(b"\0")
        self._data = int(head[_SIZE] or b"0", 8) if name else 0
        self._padding = -self._data % _BLOCK
        self._counts = name.endswith(b".jsonl")
