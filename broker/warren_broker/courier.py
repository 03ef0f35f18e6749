"""The courier: items out, coalesced.

Whatever is handed over for one destination within one turn of the event loop travels as one message
(up to `wire.MAX_ITEMS` items or `wire.MAX_BATCH_BYTES`). There is no timer: a lone item leaves at
the end of the turn, many leave together.

Invariant: `send` returns only after the broker has confirmed the message that holds the item, so
whoever then settles what the item came from can't lose it.
"""

from collections.abc import Sequence

from warren_broker.port import Broker
from warren_broker.topology import Address
from warren_schemas.envelope import Item


class Courier:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def send(self, address: Address, *items: Item) -> None:
        """Return when every item is confirmed. Raises what `Broker.publish` raises."""
        raise NotImplementedError

    async def send_all(self, address: Address, items: Sequence[Item]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Wait for what is under way; take nothing new."""
        raise NotImplementedError
