"""Which samples of a sampler are done, in the store that gateways share: a client misses none of them."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select

from warren_gateway.store.store import Store
from warren_gateway.store.tables import TinkerSample, TinkerSampler, TinkerSession, User
from warren_gateway.tinker.samples.completions import (
    CLONE,
    KEPT_S,
    MOST_TOLD,
    UNHEARD_S,
    CompletionRows,
)
from warren_gateway.tinker.samples.rows import FailedSample, SampleRows

SAMPLER = "session_1:sample:0"
FIRST = (SAMPLER, 0)


def name_of(number: int) -> str:
    return f"{SAMPLER}:{number}"


@pytest.fixture
async def stores(any_store_url: str) -> AsyncGenerator[tuple[Store, Store]]:
    """Of two gateways."""
    one, two = await Store.open(any_store_url), await Store.open(any_store_url)
    await one.transact(_open_sampler)
    yield one, two
    await one.close()
    await two.close()


def _open_sampler(session: Session) -> None:
    session.add(User(name="ann", created_s=1.0))
    session.flush()
    session.add(TinkerSession(id="session_1", owner="ann", created_s=1.0, seen_s=1.0))
    session.flush()
    session.add(
        TinkerSampler(id=SAMPLER, session_id="session_1", base_model="m", policy={}, created_s=1.0)
    )


def rows_of(store: Store) -> tuple[SampleRows, CompletionRows]:
    return SampleRows(store, lambda: None), CompletionRows(store)


async def told(rows: CompletionRows, after: int = 0) -> dict[str, int | None]:
    found = await rows.completed(FIRST, after)
    return {one.name: one.n_bytes for one in found.completions}


async def test_completions_are_told_in_their_order_to_the_clone_that_asked(
    stores: tuple[Store, Store],
) -> None:
    (rows, completions), (there, elsewhere) = map(rows_of, stores)
    for number in (0, 1, 2, 3, CLONE, CLONE + 1):
        await rows.add("ann", name_of(number), b"asked")
    await rows.finish(name_of(2), b"four")
    await there.finish(name_of(CLONE), b"another's")
    await there.finish(name_of(0), FailedSample("no", is_users=True))
    await rows.lose(name_of(1))
    await rows.cancel("ann", name_of(3))
    await rows.add("ann", name_of(4), b"asked", FailedSample("no tokens", is_users=True))
    first = await elsewhere.completed(FIRST, 0)
    assert [(one.name, one.n_bytes) for one in first.completions] == [
        (name_of(2), 4),
        (name_of(0), None),
        (name_of(1), None),
        (name_of(4), None),
    ]
    assert (await completions.completed(FIRST, first.newest)).completions == ()
    other = await completions.completed((SAMPLER, 1), 0)
    assert [one.name for one in other.completions] == [name_of(CLONE)]
    await rows.finish(name_of(CLONE + 1), b"one more")
    assert await told(completions, first.newest) == {}
    later = await completions.completed((SAMPLER, 1), other.newest)
    assert [one.name for one in later.completions] == [name_of(CLONE + 1)]


async def test_who_reads_while_gateways_finish_misses_none(stores: tuple[Store, Store]) -> None:
    """Of two that commit at once, none may have a number that was passed already."""
    (rows, completions), (there, _) = map(rows_of, stores)
    names = [name_of(number) for number in range(60)]
    for name in names:
        await rows.add("ann", name, b"asked")
    gateways = [rows] if stores[0].is_private else [rows, there]
    finishing = asyncio.create_task(_finished(names, gateways))
    heard, after = list[str](), 0
    while True:
        is_over = finishing.done()
        found = await completions.completed(FIRST, after)
        heard += [one.name for one in found.completions]
        after = found.newest
        if is_over and not found.completions:
            break
    await finishing
    assert sorted(heard) == sorted(names)


async def _finished(names: list[str], gateways: list[SampleRows]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, name in enumerate(names):
            tasks.create_task(gateways[number % len(gateways)].finish(name, b"done"))


async def test_what_a_client_has_not_heard_of_is_told_when_its_outcome_is_gone(
    stores: tuple[Store, Store],
) -> None:
    rows, completions = rows_of(stores[0])
    for number in range(3):
        await rows.add("ann", name_of(number), b"asked")
    for number in range(2):
        await rows.finish(name_of(number), b"done")
    first = await completions.completed(FIRST, 0)
    assert len(first.completions) == 2
    await completions.heard({FIRST: first.newest - 1})
    await stores[0].transact(lambda session: _age(session, KEPT_S + 1))
    await rows.hold()
    assert await told(completions) == {name_of(1): None}
    assert await rows.find("ann", name_of(1)) is None
    await stores[0].transact(lambda session: _age(session, UNHEARD_S + 1))
    await rows.hold()
    assert await stores[0].transact(_names) == [name_of(2)], "it is held, and will be answered"


async def test_what_nobody_polls_for_goes_with_its_outcome(stores: tuple[Store, Store]) -> None:
    rows, _ = rows_of(stores[0])
    await rows.add("ann", name_of(0), b"asked")
    await rows.finish(name_of(0), b"done")
    await stores[0].transact(lambda session: _age(session, KEPT_S + 1))
    await rows.hold()
    assert await stores[0].transact(_names) == []


async def test_an_open_sample_waits_for_a_client_that_polls(stores: tuple[Store, Store]) -> None:
    rows, completions = rows_of(stores[0])
    await completions.heard({FIRST: 0})
    await rows.add("ann", name_of(0), b"asked")
    await rows.release()
    await stores[0].transact(lambda session: _age(session, KEPT_S + 1))
    await rows_of(stores[1])[0].hold()
    assert await completions.unheld([SAMPLER]) == [("ann", name_of(0))]


async def test_what_a_gateway_holds_is_free_for_no_other(stores: tuple[Store, Store]) -> None:
    (rows, completions), (_, elsewhere) = map(rows_of, stores)
    await rows.add("ann", name_of(0), b"asked")
    assert await completions.unheld([SAMPLER]) == [("ann", name_of(0))], "whose it is may have it"
    assert bool(await elsewhere.unheld([SAMPLER])) is stores[0].is_private
    await rows.release()
    assert await elsewhere.unheld([SAMPLER]) == [("ann", name_of(0))]
    assert await elsewhere.unheld(["session_1:sample:1"]) == []


async def test_a_page_of_completions_has_an_end(stores: tuple[Store, Store]) -> None:
    _, completions = rows_of(stores[0])

    def add(session: Session) -> None:
        at: dict[str, Any] = {
            "sampler": SAMPLER,
            "owner": "ann",
            "holder": "g",
            "held_until_s": 1.0,
            "done_s": 1.0,
        }
        session.add_all(
            TinkerSample(id=name_of(n), **at, outcome=b"x", completion=n + 1)
            for n in range(MOST_TOLD + 5)
        )

    await stores[0].transact(add)
    first = await completions.completed(FIRST, 0)
    assert (len(first.completions), first.newest) == (MOST_TOLD, MOST_TOLD)
    assert len((await completions.completed(FIRST, first.newest)).completions) == 5


def _age(session: Session, by_s: float) -> None:
    """All that is done or was asked for is so much older."""
    past_s = time.time() - by_s
    done = update(TinkerSample).where(col(TinkerSample.done_s).is_not(None))
    session.exec(done.values(done_s=past_s))
    session.exec(update(TinkerSample).values(held_until_s=past_s))


def _names(session: Session) -> list[str]:
    return list(session.exec(select(TinkerSample.id).order_by(col(TinkerSample.id))))
