"""The part of the client that concerns the deployment: its workers, queues, budgets and dead letters."""

from urllib.parse import quote

from warren.connection.transport import Transport
from warren.pending import pending
from warren_schemas.http import (
    DeadLetterDetails,
    DeadLetterList,
    DeadLetterView,
    Health,
    QueueList,
    QueueView,
    WorkerList,
    WorkerView,
)
from warren_schemas.users.budgets import BudgetList, BudgetView


class Client:
    """`warren.Client` is one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @pending
    async def workers(self) -> tuple[WorkerView, ...]:
        """Samplers, trainers and env workers that are alive."""
        return (await self._transport.get("/v1/workers", WorkerList)).workers

    @pending
    async def queues(self) -> tuple[QueueView, ...]:
        return (await self._transport.get("/v1/queues", QueueList)).queues

    @pending
    async def budgets(self) -> tuple[BudgetView, ...]:
        """How much of what users share you have in use, and your limits."""
        return (await self._transport.get("/v1/budgets", BudgetList)).budgets

    @pending
    async def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetterView, ...]:
        """Messages that were given up, oldest first: those of your runs."""
        path = f"/v1/dead-letters?limit={limit}"
        return (await self._transport.get(path, DeadLetterList)).letters

    @pending
    async def dead_letter(self, letter: str) -> DeadLetterDetails:
        """One of them, with its items. Raises `NotFound`."""
        return await self._transport.get(_letter(letter), DeadLetterDetails)

    @pending
    async def republish_dead_letter(self, letter: str) -> DeadLetterView:
        """Send it to the queue that it came from. Raises `NotFound`, or `GatewayError` (409) when
        that queue is gone."""
        return await self._transport.post(f"{_letter(letter)}/republish", DeadLetterView)

    @pending
    async def drop_dead_letter(self, letter: str) -> DeadLetterView:
        """Forget it. Raises `NotFound`."""
        return await self._transport.post(f"{_letter(letter)}/drop", DeadLetterView)

    @pending
    async def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return await self._transport.get("/healthz", Health, needs_key=False)


def _letter(letter: str) -> str:
    return f"/v1/dead-letters/{quote(letter, safe='')}"
