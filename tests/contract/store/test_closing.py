"""A store's connections end with it, whenever whoever closes it is cancelled."""

import asyncio
import threading

import pytest
from sqlalchemy import event, text
from sqlalchemy.pool import Pool
from sqlmodel import Session

from warren_gateway.store.store import Store


async def test_a_store_is_closed_also_where_its_closing_is_cancelled(any_store_url: str) -> None:
    store = await Store.open(any_store_url)
    is_at_work, may_end = threading.Event(), threading.Event()
    n_closed = 0

    def work(session: Session) -> None:
        session.connection().execute(text("select 1"))
        is_at_work.set()
        may_end.wait()

    def count(*_: object) -> None:
        nonlocal n_closed
        n_closed += 1

    working = asyncio.create_task(store.transact(work))
    await asyncio.to_thread(is_at_work.wait)
    event.listen(Pool, "close", count)
    try:
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await working
    finally:
        event.remove(Pool, "close", count)
    assert n_closed > 0
