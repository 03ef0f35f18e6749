"""One message of a run's events, written once for all who follow it."""

from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.inbox import Claim
from warren_schemas.events import RunEvent, StateChanged


@dataclass(frozen=True, slots=True)
class ToldEvent:
    id: str
    """Of its envelope: a duplicate has the same."""
    kind: str
    json: str
    is_last: bool
    """Nothing comes after it."""


@dataclass(frozen=True, slots=True)
class Told:
    offset: int
    events: tuple[ToldEvent, ...]
    size_bytes: int


def told(claims: Sequence[Claim[RunEvent]]) -> Told:
    events = tuple(_told(claim.item) for claim in claims)
    return Told(claims[0].offset or 0, events, sum(len(event.json) for event in events))


def _told(event: RunEvent) -> ToldEvent:
    return ToldEvent(
        event.envelope.id, event.body.kind, event.model_dump_json(), is_last=is_last(event)
    )


def is_last(event: RunEvent) -> bool:
    return isinstance(event.body, StateChanged) and event.body.state.is_final
