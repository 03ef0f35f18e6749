"""Where a reader of a run's stream is: the `id` of a server-sent event, the offset of a trajectory.

A message of the stream holds up to `MAX_ITEMS` items, so a position is the message's offset times
`PLACES` plus the item's place in it: one rising integer for each item, the same at every gateway.
Clients keep such numbers for as long as they like, so `PLACES` never changes, whatever `MAX_ITEMS` does.
"""

from dataclasses import dataclass

from warren_schemas.codec.wire import MAX_ITEMS

PLACES = 64
assert MAX_ITEMS <= PLACES


@dataclass(frozen=True, slots=True, order=True)
class Position:
    offset: int
    place: int = 0

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Raises `ValueError` for what is not a whole number of at least 0."""
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise ValueError(f"{text[:40]!r} is not the id of an event")
        return cls.of(int(text))

    @classmethod
    def of(cls, number: int) -> "Position":
        return cls(*divmod(number, PLACES))

    def __int__(self) -> int:
        return self.offset * PLACES + self.place

    def __str__(self) -> str:
        return str(int(self))
