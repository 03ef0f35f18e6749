"""Claims without an inbox."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from warren_schemas.envelope import Item

ItemT = TypeVar("ItemT", bound=Item)


@dataclass
class HeldClaim(Generic[ItemT]):
    """A claim that notes how it was settled."""

    item: ItemT
    fate: str = "held"
    n_deliveries: int = 1
    offset: int | None = None

    def done(self) -> None:
        self._settle("done")

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self._settle("handed back")

    def dead_letter(self, reason: str) -> None:
        self._settle(f"dead: {reason}")

    def _settle(self, fate: str) -> None:
        assert self.fate == "held", "a claim is settled once"
        self.fate = fate
