"""All work queues and homes of a hub, and `dead`.

Invariants: a message that is given up, and what a home leaves behind when it is gone, moves to
another queue in the same turn of the event loop, so that it is never in none.
"""

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from itertools import islice

from warren_broker.errors import BrokerUnavailable, Unroutable
from warren_broker.memory.work_queue import ExpiringQueue, HomeQueue, Message, Queue
from warren_broker.port import MAX_REASON_CHARS, DeadLetter
from warren_broker.topology import DEAD, Home, WorkQueue

log = logging.getLogger(__name__)


class Queues:
    """By name; a queue belongs to no client, and outlives all of them."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self.declare(DEAD)

    def declare(self, address: WorkQueue | Home) -> Queue:
        if (queue := self._queues.get(address.name)) is None:
            queue = self._queues[address.name] = self._create(address)
        return queue

    def find(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def delete(self, name: str) -> None:
        if (queue := self._queues.pop(name, None)) is not None:
            queue.delete()

    def offer(self, name: str, message: Message) -> asyncio.Future[None] | None:
        """Put a message into a queue; a future when it must wait. Raises `Unroutable`."""
        if (queue := self._queues.get(name)) is None:
            raise Unroutable(f"nobody is behind {name}")
        return queue.offer(message)

    def give_up(self, message: Message, origin: str, reason: str) -> None:
        """Move a message to `dead`."""
        message.origin = origin
        message.reason = reason[:MAX_REASON_CHARS]
        log.warning("message %s of %s goes to dead: %s", message.id, origin, message.reason)
        message.n_deliveries = 0
        dead = self.declare(DEAD)
        if len(dead.ready) >= dead.max_messages:
            dropped = dead.drop_oldest()
            log.error("dead is full: dropped %s of %s", dropped.id, dropped.origin)
        dead.put(message)

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        return [_dead_letter(message) for message in islice(self.declare(DEAD).ready, limit)]

    def requeue(self, letter_id: str) -> bool:
        if (message := self._find_dead(letter_id)) is None:
            return False
        if (origin := self._queues.get(message.origin)) is None:
            raise Unroutable(f"{letter_id} came from {message.origin}, which is gone")
        if len(origin.ready) >= origin.max_messages:
            raise BrokerUnavailable(f"{letter_id} can't go to {message.origin}: the queue is full")
        self.declare(DEAD).remove(message)
        message.origin = message.reason = ""
        message.n_requeued += 1
        origin.put(message)
        return True

    def drop_letters(self, letter_ids: Collection[str]) -> int:
        """How many there were."""
        wanted = frozenset(letter_ids)
        return self.declare(DEAD).remove_where(lambda message: message.id in wanted)

    def _find_dead(self, letter_id: str) -> Message | None:
        return next((m for m in self.declare(DEAD).ready if m.id == letter_id), None)

    def close(self) -> None:
        for queue in self._queues.values():
            queue.delete()

    def _create(self, address: WorkQueue | Home) -> Queue:
        if isinstance(address, WorkQueue):
            return self._create_work_queue(address)
        self.declare(address.fallback)
        return HomeQueue(address, self.give_up, fall_back=self._fall_back)

    def _create_work_queue(self, address: WorkQueue) -> Queue:
        name, max_messages = address.name, address.max_messages
        if address.expires_s is None:
            return Queue(name, max_messages, self.give_up)
        expire = partial(self.delete, name)
        return ExpiringQueue(
            name, max_messages, self.give_up, expires_s=address.expires_s, expire=expire
        )

    def _fall_back(self, home: HomeQueue) -> None:
        self._queues.pop(home.name)
        fallback = self.declare(home.address.fallback)
        n_moved = 0
        for message in home.drain():
            fallback.put(message)
            n_moved += 1
        log.info("%s is gone: %d messages moved to %s", home.name, n_moved, fallback.name)


def _dead_letter(message: Message) -> DeadLetter:
    return DeadLetter(
        id=message.id,
        origin=message.origin,
        reason=message.reason,
        first_seen_s=message.published_s,
        body=message.body,
        n_failures=message.n_requeued + 1,
    )
