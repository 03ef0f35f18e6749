"""The outbox: what must be sent is stored in the transaction that made it true.

Invariants: a posted message reaches the broker at least once; it leaves the table only after the
broker has confirmed it. Messages to one address leave in the order of posting: those of one gateway
always, and to a stream, where the order stays, also those of several. A broker that is away costs
time and nothing else, and an address that takes nothing holds no other back.

In a private store the relay reads what was posted at the end of the transaction that posts it, and hears of it once that is
committed.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import insert
from sqlmodel import Session, col, select

from warren_broker.errors import BrokerError, Unroutable
from warren_broker.port import Broker
from warren_broker.topology import Address, Stream, Topic, WorkQueue
from warren_gateway.store.group_commit import POSTED
from warren_gateway.store.outbox_pages import Page, Sent, newest, next_page
from warren_gateway.store.statements import table
from warren_gateway.store.store import GATEWAY, Store, StoreUnavailable
from warren_gateway.store.tables import OutboxRow
from warren_schemas.codec.wire import MAX_BATCH_BYTES, MAX_ITEMS, encode
from warren_schemas.envelope import Item
from warren_schemas.ids import new_message_id

PAGE = 256
"""Messages that the relay takes from the table at a time."""
RETRY_S = 1.0
TURN_S = 0.2
"""How long a message waits for its turn when another gateway has an older one for the stream."""
FORGET_S = 0.1
"""How long a message that was sent may stay in a table that no other gateway reads: it goes with the next page."""
LOOK_S = 5.0
"""How often a relay looks for what a gateway left behind that died between commit and sending: what
lies there at two looks in a row."""
OWNED_BY_WORKERS = ("trainer.", "train.")
"""Queues that come and go with a worker or a lease; what can't be routed to them is obsolete."""

_KINDS: dict[str, type[WorkQueue | Stream | Topic]] = {
    "queue": WorkQueue,
    "stream": Stream,
    "topic": Topic,
}

log = logging.getLogger(__name__)

_POST = insert(table(OutboxRow))


def post(
    session: Session,
    address: WorkQueue | Stream | Topic,
    *items: Item,
    most: int = MAX_ITEMS,
) -> None:
    """Store the items as messages of so many at most; they leave after the commit."""
    _insert(session, [(address, body) for body in _messages(items, min(most, MAX_ITEMS))])


def post_all(
    session: Session, messages: Iterable[tuple[Address, Item]], *, is_awaited: bool = True
) -> None:
    """The same, to many addresses at once, one message each. What nobody waits for leaves with whatever is posted next,
    or once the relay looks by itself."""
    bodies = [(address, encode([item])) for address, item in messages]
    _insert(session, bodies, is_awaited=is_awaited)


def _insert(
    session: Session, bodies: Sequence[tuple[Address, bytes]], *, is_awaited: bool = True
) -> None:
    gateway = session.info.get(GATEWAY, "")
    rows = [
        {
            "address_kind": next(kind for kind, cls in _KINDS.items() if isinstance(address, cls)),
            "address": address.name,
            "body": body,
            "message_id": new_message_id(),
            "gateway": gateway,
        }
        for address, body in bodies
    ]
    if rows:
        session.connection().execute(_POST, rows)
        if is_awaited:
            session.info[POSTED] = True


def has_posted(session: Session) -> bool:
    """Whether something is to leave as soon as this transaction is committed."""
    return POSTED in session.info


def is_unsent(session: Session, stream: Stream) -> bool:
    """Whether something that was posted to the stream may not be in it yet."""
    query = select(OutboxRow.id).where(
        col(OutboxRow.address) == stream.name, col(OutboxRow.address_kind) == "stream"
    )
    return session.exec(query.limit(1)).first() is not None


def _messages(items: Sequence[Item], most: int) -> Iterable[bytes]:
    for start in range(0, len(items), most):
        yield from _halved(items[start : start + most])


def _halved(items: Sequence[Item]) -> Iterable[bytes]:
    """One message, or two of half the items each while it is over the batch size."""
    body = encode(items)
    if len(body) <= MAX_BATCH_BYTES or len(items) == 1:
        yield body
        return
    middle = len(items) // 2
    yield from _halved(items[:middle])
    yield from _halved(items[middle:])


class Relay:
    """Publishes what this gateway posted, and what others left behind, oldest first.

    Two gateways may take the same message for left behind, say while the broker is away: duplicates.
    """

    def __init__(
        self, store: Store, broker: Broker, *, look_s: float = LOOK_S, page: int = PAGE
    ) -> None:
        self._store = store
        self._broker = broker
        self._look_s = look_s
        self._n_page = page
        self._posted = asyncio.Event()
        self._busy: set[str] = set()
        """Names of the addresses that messages are on their way to."""
        self._passed_over = frozenset[str]()
        """Of these, at the last look: more may lie there for them."""
        self._will_forget = False
        self._sent: list[Sent] = []
        """Confirmed, and still in the table."""
        self._newest_seen = 0
        """Of all rows, at the last look for what was left behind."""
        self._orphaned_to = 0
        """The same at the look before: what of that still lies there was left behind."""
        self._looked_s = -look_s

    def notify(self) -> None:
        """Something was posted and committed; a private store knows."""
        if not self._store.is_private:
            self._posted.set()

    def _look(self) -> None:
        """Turn a page at once."""
        if self._store.is_private:
            self._store.hurry()
        else:
            self._posted.set()

    async def run(self) -> None:
        """Relay for ever."""
        self._look()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    self._begin_to_send(await self._turn_page(), tasks)
                    await self._look_for_orphans()
                except StoreUnavailable as error:
                    log.warning("outbox waits: %s", error)
                    await asyncio.sleep(RETRY_S)
                    self._look()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(self._look_s):
                await self._posted.wait()
        except TimeoutError:
            pass
        self._posted.clear()

    async def _look_for_orphans(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= self._look_s:
            seen = await self._store.read(newest)
            self._orphaned_to, self._newest_seen = self._newest_seen, seen
            self._looked_s = now_s

    def _begin_to_send(self, page: Page, tasks: asyncio.TaskGroup) -> None:
        """The oldest to whoever is free."""
        rows = [row for row, is_early in page.rows if not is_early]
        if len(rows) < len(page.rows):
            asyncio.get_running_loop().call_later(TURN_S, self._look)
        if rows and len(page.rows) == self._n_page:
            self._look()
        by_address: dict[Address, list[OutboxRow]] = defaultdict(list)
        for row in rows:
            by_address[_KINDS[row.address_kind](row.address)].append(row)
        for address, of_address in by_address.items():
            self._busy.add(address.name)
            tasks.create_task(self._send(address, of_address), name=f"outbox to {address.name}")

    async def _turn_page(self) -> Page:
        """The next one, once something was posted or a look is due. Raises `StoreUnavailable`."""
        if self._store.is_private:
            page = await self._store.transact_with_posts(self._read_page, within_s=self._look_s)
        else:
            await self._until_due()
            page = await self._store.transact(self._read_page)
        del self._sent[: page.n_sent]
        self._passed_over = page.passed_over
        if not self._passed_over <= self._busy:  # one is free since
            self._look()
        return page

    def _read_page(self, session: Session) -> Page:
        """In a thread of the store's: by what is sent and busy then."""
        busy = set(self._busy)  # before what is sent: whatever leaves the one is in the other
        return next_page(
            session,
            busy=busy,
            sent=list(self._sent),
            only=None if self._store.is_private else self._store.gateway,
            orphaned_to=self._orphaned_to,
            n_most=self._n_page,
        )

    async def _send(self, address: Address, rows: list[OutboxRow]) -> None:
        """One after the other, in order."""
        try:
            for row in rows:
                await self._publish(address, row)
                assert row.id is not None
                self._sent.append((row.id, row.message_id))
        except BrokerError as error:
            log.warning("outbox waits: %s", error)
            await asyncio.sleep(RETRY_S)
            self._passed_over |= {address.name}
        finally:
            self._busy.discard(address.name)
            self._look_again(address)

    def _look_again(self, address: Address) -> None:
        """At once where more may lie there for it; else soon, to forget what was sent: a look costs a transaction."""
        if address.name in self._passed_over or not self._store.is_private:
            self._look()
        elif not self._will_forget:
            self._forget_soon()

    def _forget_soon(self) -> None:
        self._will_forget = bool(self._sent)
        if self._sent:
            asyncio.get_running_loop().call_later(FORGET_S, self._forget, self._sent[-1])

    def _forget(self, sent: Sent) -> None:
        """This one and those before it, unless a page has taken them along."""
        if sent in self._sent:
            self._will_forget = False
            self._look()
        else:
            self._forget_soon()

    async def _publish(self, address: Address, row: OutboxRow) -> None:
        try:
            await self._publish_one(address, row)
        except Unroutable:
            log.info("nobody is behind %s any more; message dropped", address.name)

    async def _publish_one(self, address: Address, row: OutboxRow) -> None:
        try:
            await self._broker.publish(address, row.body, message_id=row.message_id)
        except Unroutable:
            if address.name.startswith(OWNED_BY_WORKERS):
                raise
            await self._broker.declare(address)
            await self._broker.publish(address, row.body, message_id=row.message_id)
