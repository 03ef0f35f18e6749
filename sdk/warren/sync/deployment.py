"""Workers, queues and budgets, without `await`; see `warren.deployment`."""

from collections.abc import Coroutine
from typing import TypeVar

from warren.client import Client
from warren.connection.loop_thread import LoopThread
from warren_schemas.http import DeadLetterDetails, DeadLetterView, Health, QueueView, WorkerView
from warren_schemas.users.budgets import BudgetView

T = TypeVar("T")


class Deployment:
    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._thread = thread
        self._client = client

    def workers(self) -> tuple[WorkerView, ...]:
        """Samplers, trainers and env workers that are alive."""
        return self._call(self._client.workers())

    def queues(self) -> tuple[QueueView, ...]:
        """The work queues, and how many messages wait in each."""
        return self._call(self._client.queues())

    def budgets(self) -> tuple[BudgetView, ...]:
        """How much of what users share you have in use, and your limits."""
        return self._call(self._client.budgets())

    def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetterView, ...]:
        """Messages that were given up, oldest first: those of your runs."""
        return self._call(self._client.dead_letters(limit=limit))

    def dead_letter(self, letter: str) -> DeadLetterDetails:
        """One of them, with its items."""
        return self._call(self._client.dead_letter(letter))

    def republish_dead_letter(self, letter: str) -> DeadLetterView:
        """Send it to the queue that it came from."""
        return self._call(self._client.republish_dead_letter(letter))

    def drop_dead_letter(self, letter: str) -> DeadLetterView:
        """Forget it."""
        return self._call(self._client.drop_dead_letter(letter))

    def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return self._call(self._client.health())

    def _call(self, answer: Coroutine[object, None, T]) -> T:
        return self._thread.call(answer)
