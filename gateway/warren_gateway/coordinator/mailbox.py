"""The mailbox of a run's coordinator: everything that may wake it, taken out all at once.

Bounded: who puts endings or answers in waits while too many lie there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from warren_broker.errors import BrokerUnavailable
from warren_broker.inbox import Claim, Inbox
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.coordinator.state.group_parts import FIRST_READING, Reading
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.position import Position
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded
from warren_schemas.group_scoring import GroupScored
from warren_schemas.training import JobTaken, OpResult

MOST_ITEMS = 4096
MOST_REQUESTS = 64
"""Requests of a client that lie there at a time."""

Answer = OpResult | JobTaken | GroupScored
"""Of a worker to the results of the run's model."""
ANSWERS = (OpResult, JobTaken, GroupScored)

ItemT = TypeVar("ItemT", bound=Item)


@dataclass(slots=True)
class Mail:
    endings: list[tuple[Position, Claim[EpisodeEnded]]] = field(
        default_factory=list[tuple[Position, Claim[EpisodeEnded]]]
    )
    """With the place of each in the run's stream."""
    answers: list[Claim[Answer]] = field(default_factory=list[Claim[Answer]])
    recorded: Message | None = None
    """One message of a recording."""
    reading: Reading | None = None
    """In which it came."""
    recorded_claims: Sequence[Claim[EpisodeEnded]] = ()
    """Of a message that came from a stream."""
    is_control_changed: bool = False
    """The run's row may hold a new request (cancellation)."""
    requests: list[Arrived] = field(default_factory=list[Arrived])
    """What the client of the run's model has asked for; it is in the store."""
    has_unread_requests: bool = False
    """It has asked for something that only the store knows."""
    is_recorder_changed: bool = False
    """The row of the run that is replayed may tell of its end."""

    @property
    def has_requests(self) -> bool:
        return self.has_unread_requests or bool(self.requests)

    @property
    def n_items(self) -> int:
        return len(self.endings) + len(self.answers)


class Mailbox:
    def __init__(self) -> None:
        self._mail = Mail()
        self._arrived = asyncio.Event()
        self._not_full = asyncio.Event()
        self._not_full.set()
        self._asked = asyncio.Event()
        self._wanted = FIRST_READING
        self._went_on = asyncio.Event()

    async def put_endings(self, claims: "list[Claim[EpisodeEnded]]") -> None:
        """The endings of one message of the stream."""
        await self._not_full.wait()
        self._mail.endings.extend(
            (Position(claim.offset or 0, place), claim) for place, claim in enumerate(claims)
        )
        self._notify()

    async def put_answers(self, claims: "list[Claim[Answer]]") -> None:
        await self._not_full.wait()
        self._mail.answers.extend(claims)
        self._notify()

    async def put_recorded(
        self,
        reading: Reading,
        message: Message,
        claims: "Sequence[Claim[EpisodeEnded]]" = (),
    ) -> None:
        """Hand over one message once it is asked for; `claims` are its items, where it came from a stream."""
        await self._asked.wait()
        self._asked.clear()
        self._mail.reading = reading
        self._mail.recorded, self._mail.recorded_claims = message, claims
        self._arrived.set()

    async def until_asked(self) -> None:
        """Until a message would be handed over."""
        await self._asked.wait()

    def ask_for_recorded(self) -> None:
        """The next message of the recording can be used."""
        self._asked.set()

    def go_on_to(self, reading: Reading) -> None:
        """All before this one was read."""
        self._wanted = reading
        self._went_on.set()

    async def until_read(self, reading: Reading) -> None:
        """Until nothing more is wanted of it."""
        while self._wanted <= reading:
            self._went_on.clear()
            await self._went_on.wait()

    def put_request(self, arrived: Arrived | None) -> None:
        """None: of which the store knows. More than can be taken at a time are left there as well."""
        if arrived is None or len(self._mail.requests) >= MOST_REQUESTS:
            self._mail.has_unread_requests = True
        else:
            self._mail.requests.append(arrived)
        self._arrived.set()

    def wake(self, *, is_control_changed: bool = False, is_recorder_changed: bool = False) -> None:
        self._mail.is_control_changed |= is_control_changed
        self._mail.is_recorder_changed |= is_recorder_changed
        self._arrived.set()

    async def take(self, timeout_s: float) -> Mail:
        """All that has come in; waits for something, at most `timeout_s`."""
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._arrived.wait()
        except TimeoutError:
            pass
        mail, self._mail = self._mail, Mail()
        self._arrived.clear()
        self._not_full.set()
        return mail

    def _notify(self) -> None:
        if self._mail.n_items >= MOST_ITEMS:
            self._not_full.clear()
        self._arrived.set()


async def hand_over(
    inbox: Inbox[ItemT], put: "Callable[[list[Claim[ItemT]]], Awaitable[None]]"
) -> None:
    """Until cancelled: a run whose queue is gone would hear nothing more, and begins again instead.

    Raises `BrokerUnavailable`.
    """
    async for claims in inbox:
        await put(list(claims))
    raise BrokerUnavailable("what the run reads from was deleted at the broker")
