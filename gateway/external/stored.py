"""Which of our ids stands for which of the provider's: agents continue or fetch an answer under the id that they were given.

In memory: after a restart an agent has to send its items again, as it must with an answer that a provider has dropped.
"""

from collections import OrderedDict

_MOST = 20_000


class StoredIds:
    """The latest answers, ours → the model and the provider's id as litellm calls it."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def keep(self, ours: str, model: str, theirs: str) -> None:
        """Remember one; the first word stands."""
        self._ids.setdefault(ours, (model, theirs))
        if len(self._ids) > _MOST:
            self._ids.popitem(last=False)

    def find(self, ours: str) -> tuple[str, str] | None:
        """(model, the provider's id)."""
        return self._ids.get(ours)
