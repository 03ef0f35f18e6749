"""A broker whose traffic can be looked at: where its clients publish to, and what."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.support.observed_broker import ObservedBroker

from warren_broker.port import Broker
from warren_broker.topology import Address

MOST_KEPT = 200


@dataclass
class Traffic:
    """Of each address some messages, old ones and new ones alike."""

    bodies: dict[Address, list[bytes]] = field(default_factory=dict[Address, list[bytes]])
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    def forget(self, address: Address) -> None:
        self.bodies.pop(address, None)

    def note(self, address: Address, body: bytes) -> None:
        kept = self.bodies.setdefault(address, [])
        if len(kept) < MOST_KEPT:
            kept.append(body)
        else:
            kept[self.rng.randrange(MOST_KEPT)] = body


class TappedBroker(ObservedBroker):
    def __init__(self, broker: Broker, traffic: Traffic) -> None:
        super().__init__(broker)
        self._traffic = traffic

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        await super().publish(address, body, message_id=message_id, timeout_s=timeout_s)
        self._traffic.note(address, body)


def tapping(
    client_named: Callable[[str], Awaitable[Broker]], traffic: Traffic
) -> Callable[[str], Awaitable[Broker]]:
    async def tapped(name: str) -> Broker:
        return TappedBroker(await client_named(name), traffic)

    return tapped
