"""What a relay reads of the outbox, in every store."""

from collections.abc import AsyncGenerator

import pytest
from sqlmodel import Session, delete, update

from warren_broker.topology import MODEL_ANSWERS
from warren_gateway.store.outbox import post
from warren_gateway.store.outbox_pages import Page, Sent, next_page
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow
from warren_schemas.control import RequestsAnswered
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


def post_one(session: Session) -> None:
    model = ModelId("model_1")
    post(
        session,
        MODEL_ANSWERS,
        RequestsAnswered(envelope=Envelope(), answered_model=model, requests=("a",)),
    )


def page(session: Session, *sent: Sent) -> Page:
    return next_page(session, sent=sent, busy=(), only=None, orphaned_to=0, n_most=10)


def sent_of(page: Page) -> list[Sent]:
    return [(row.id or 0, row.message_id) for row, _ in page.rows]


async def test_what_was_sent_goes_with_the_next_page(store: Store) -> None:
    await store.transact(post_one)
    await store.transact(post_one)
    first, second = sent_of(await store.transact(page))
    after = await store.transact(lambda session: page(session, first))
    assert (sent_of(after), after.n_sent) == ([second], 1)


async def test_a_new_message_stays_whose_row_has_the_id_of_one_that_was_sent(store: Store) -> None:
    """The commit that deleted the old row was reported as failed: it is taken for sent and there."""
    await store.transact(post_one)
    (old,) = sent_of(await store.transact(page))

    def put_in_its_place(session: Session) -> None:
        session.exec(delete(OutboxRow))
        post_one(session)
        (row,) = (row for row, _ in page(session).rows)
        assert row.id is not None
        if row.id != old[0]:  # a store that gives no id twice
            moved = update(OutboxRow).values(id=old[0])
            session.exec(moved)

    await store.transact(put_in_its_place)
    ((number, message),) = sent_of(await store.transact(lambda session: page(session, old)))
    assert number == old[0] and message != old[1]
