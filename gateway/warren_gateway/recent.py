"""A bounded memory of what was seen: duplicates of a message come soon after it."""

from collections import OrderedDict


class Recent:
    """The newest `limit` ids."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, id_: str) -> bool:
        """Remember it; False when it was known."""
        if id_ in self._ids:
            return False
        self._ids[id_] = None
        if len(self._ids) > self._limit:
            self._ids.popitem(last=False)
        return True

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids
