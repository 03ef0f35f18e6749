"""One message of a run's events, written once for all who follow it."""

from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.inbox import Claim
from warren_schemas.events import RunEvent, StateChanged


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    id: str
    """Of its envelope: a duplicate has the same."""
    kind: str
    json: str
    is_last: bool
    """Nothing comes after it."""


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    offset: int
    events: tuple[EncodedEvent, ...]
    size_bytes: int


def encoded(claims: Sequence[Claim[RunEvent]]) -> EncodedEvents:
    events = tuple(_encoded(claim.item) for claim in claims)
    return EncodedEvents(claims[0].offset or 0, events, sum(len(event.json) for event in events))


def _encoded(event: RunEvent) -> EncodedEvent:
    return EncodedEvent(
        event.envelope.id, event.body.kind, event.model_dump_json(), is_last=is_last(event)
    )


def is_last(event: RunEvent) -> bool:
    return isinstance(event.body, StateChanged) and event.body.state.is_final
