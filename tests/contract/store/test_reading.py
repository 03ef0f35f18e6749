"""What only reads: beside the writer, of one state, and never writing."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlmodel import Session, col, select

from warren_gateway.store.store import Store
from warren_gateway.store.tables import User


@pytest.fixture
async def both(any_store_url: str) -> AsyncIterator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


def names(session: Session) -> list[str]:
    return list(session.exec(select(User.name).order_by(col(User.name))))


def add(name: str, session: Session) -> None:
    session.add(User(name=name, created_s=0.0))


async def test_it_sees_what_was_committed_before(both: Store) -> None:
    before = await both.read(names)
    await both.transact(lambda session: add("ann", session))
    assert await both.read(names) == sorted([*before, "ann"])


async def test_it_does_not_wait_for_a_transaction_under_way(both: Store) -> None:
    is_at_work, may_end = threading.Event(), threading.Event()

    def work(session: Session) -> None:
        add("ann", session)
        session.flush()
        is_at_work.set()
        may_end.wait()

    before = await both.read(names)
    working = asyncio.create_task(both.transact(work))
    await asyncio.to_thread(is_at_work.wait)
    assert await both.read(names) == before
    may_end.set()
    await working
    assert "ann" in await both.read(names)


async def test_what_would_write_is_refused_and_leaves_nothing(both: Store) -> None:
    before = await both.read(names)
    with pytest.raises(TypeError, match="only reads"):
        await both.read(lambda session: add("ann", session))
    with pytest.raises(TypeError, match="only reads"):
        await both.read(
            lambda session: session.connection().execute(text("DELETE FROM account")) and None
        )
    assert await both.transact(names) == before
    await both.transact(lambda session: add("ann", session))  # the connections are of use again


async def test_it_sees_one_state_of_a_file(store: Store) -> None:
    """Two queries of one reading agree, whatever is committed in between. (Each query of PostgreSQL sees what is
    committed by then.)"""
    has_read, may_go_on = threading.Event(), threading.Event()

    def twice(session: Session) -> tuple[list[str], list[str]]:
        first = names(session)
        has_read.set()
        may_go_on.wait()
        return first, names(session)

    reading = asyncio.create_task(store.read(twice))
    await asyncio.to_thread(has_read.wait)
    await store.transact(lambda session: add("ann", session))
    may_go_on.set()
    first, second = await reading
    assert first == second
