"""What a topic delivers, whichever broker carries it: an event that nobody waits for.

A listener that falls behind loses the oldest events it has not seen, and never holds anybody up: at
most `MAX_UNSEEN` are kept for it.
"""

from dataclasses import dataclass

from warren_broker.errors import BrokerError

MAX_UNSEEN = 1000
"""Events that are kept for one listener."""


@dataclass(slots=True, frozen=True, eq=False)
class TopicEvent:
    """A delivery that nobody waits for: settling it means nothing."""

    body: bytes
    message_id: str

    @property
    def n_deliveries(self) -> int:
        return 1

    @property
    def offset(self) -> int | None:
        return None

    async def ack(self) -> None:
        """Nothing to do: an event is gone once it was handed out."""

    async def nack(self, *, delay_s: float = 0.0) -> None:
        raise BrokerError("an event can't be handed back: nothing keeps it")

    async def dead_letter(self, reason: str) -> None:
        raise BrokerError("an event can't be given up: nothing keeps it")
