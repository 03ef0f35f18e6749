"""SQLite's transactions that wait for their turn: one commit for all, and each as if it were alone."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import Pool
from sqlmodel import Session, select
from tests.support.commits import commits
from tests.support.lost_store import lost_store

from warren_gateway.store.group_commit import POSTED
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import User


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    yield store
    await store.close()


async def at_once(store: Store, *works: Callable[[Session], object]) -> list[object]:
    """Their results, or what they raised; none begins before all wait, for the one thread is held meanwhile."""
    loop, is_held, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    async def open_the_gate() -> None:
        gate.set()

    def hold(_: Session) -> None:
        loop.call_soon_threadsafe(is_held.set)
        gate.wait()

    holding = asyncio.create_task(store.transact(hold))
    await is_held.wait()
    waiting = [store.transact(work) for work in works]
    results = await asyncio.gather(*waiting, open_the_gate(), return_exceptions=True)
    await holding
    return results[:-1]


@contextmanager
def checkouts() -> Generator[list[None]]:
    """Connections that were taken from a pool."""
    seen = list[None]()

    def note(*_: object) -> None:
        seen.append(None)

    event.listen(Pool, "checkout", note)
    try:
        yield seen
    finally:
        event.remove(Pool, "checkout", note)


def adding(name: str) -> Callable[[Session], str]:
    def add(session: Session) -> str:
        session.add(User(name=name, created_s=1.0))
        session.flush()
        return name

    return add


def _names(session: Session) -> set[str]:
    return set(session.exec(select(User.name)))


async def test_what_waits_is_committed_together(store: Store) -> None:
    with commits() as seen:
        assert await at_once(store, *(adding(f"u{n}") for n in range(20))) == [
            f"u{n}" for n in range(20)
        ]
    assert len(seen) == 1
    assert await store.transact(_names) == {f"u{n}" for n in range(20)}


async def test_one_that_raises_has_no_effect_and_the_others_have_theirs(store: Store) -> None:
    def add_and_refuse(session: Session) -> None:
        adding("refused")(session)
        raise LookupError("refused")

    results = await at_once(store, adding("a"), add_and_refuse, adding("a"), _names, adding("b"))
    assert isinstance(results[1], LookupError)
    assert isinstance(results[2], IntegrityError)
    assert results[3] == {"a"}, "it sees what came before it"
    assert await store.transact(_names) == {"a", "b"}


async def test_each_has_rows_of_its_own(store: Store) -> None:
    await store.transact(adding("a"))

    def change(session: Session) -> None:
        session.get_one(User, "a").is_admin = True

    before, _, after = await at_once(
        store, lambda s: s.get_one(User, "a"), change, lambda s: s.get_one(User, "a")
    )
    assert isinstance(before, User) and isinstance(after, User)
    assert (before.is_admin, after.is_admin) == (False, True)


async def test_a_database_that_is_away_fails_all_and_has_none_of_it(store: Store) -> None:
    with lost_store():
        results = await at_once(store, adding("a"), adding("b"))
    assert [type(result) for result in results] == [StoreUnavailable, StoreUnavailable]
    assert await store.transact(_names) == set()


async def test_all_go_through_one_connection_also_after_one_was_away(store: Store) -> None:
    await store.transact(adding("a"))
    with checkouts() as seen:
        with lost_store():
            await at_once(store, adding("b"), adding("c"))
        with pytest.raises(IntegrityError):
            await store.transact(adding("a"))
        await at_once(store, adding("d"), adding("e"))
        await store.transact(adding("f"))
    assert seen == []
    assert await store.transact(_names) == {"a", "d", "e", "f"}


def posting(name: str) -> Callable[[Session], str]:
    def add(session: Session) -> str:
        session.info[POSTED] = True
        return adding(name)(session)

    return add


def refusing(session: Session) -> None:
    posting("refused")(session)
    raise LookupError("refused")


@asynccontextmanager
async def riding(store: Store) -> AsyncGenerator[asyncio.Task[set[str]]]:
    """One that sees the names that there are when it goes."""
    rides = asyncio.create_task(store.transact_with_posts(_names, within_s=3600.0))
    await asyncio.sleep(0)
    yield rides
    rides.cancel()
    await asyncio.wait({rides})


@pytest.mark.parametrize("n_others", [0, 2])
async def test_what_rides_along_is_in_the_transaction_that_posts_and_sees_all_of_it(
    store: Store, n_others: int
) -> None:
    others = [adding(f"u{n}") for n in range(n_others)]
    async with riding(store) as rides:
        await store.transact(adding("before"))
        with commits() as seen:
            await at_once(store, posting("a"), *others)
        assert rides.done()
    assert rides.result() == {"before", "a", *(f"u{n}" for n in range(n_others))}
    assert len(seen) == 1


async def test_it_waits_while_nothing_is_posted_or_what_posts_is_refused(store: Store) -> None:
    async with riding(store) as rides:
        await store.transact(adding("a"))
        with pytest.raises(LookupError):
            await store.transact(refusing)
        await at_once(store, adding("b"), refusing)
        assert not rides.done()
        store.hurry()
        assert await rides == {"a", "b"}


@pytest.mark.parametrize("refused", [False, True])
async def test_who_gets_on_late_goes_at_once(store: Store, refused: bool) -> None:
    """Also where the transaction comes to nothing that it would have gone with."""
    await store.transact(posting("a"))
    async with riding(store) as rides:
        if refused:
            with pytest.raises(LookupError):
                await store.transact(refusing)
        assert await rides == {"a"}
    async with riding(store) as rides:
        await store.transact(adding("b"))
        assert not rides.done(), "it is due once"


async def test_a_database_that_is_away_fails_what_rides_and_misses_no_post(store: Store) -> None:
    async with riding(store) as rides:
        with lost_store(), pytest.raises(StoreUnavailable):
            await store.transact(posting("a"))
        store.hurry()
        assert await rides == set()
        await store.transact(posting("b"))
        async with riding(store) as again:
            assert await again == {"b"}


async def test_who_has_got_off_is_passed_over(store: Store) -> None:
    async with riding(store):
        pass
    async with riding(store) as rides:
        await store.transact(posting("a"))
        assert await rides == {"a"}


async def test_it_goes_by_itself_in_time(store: Store) -> None:
    assert await store.transact_with_posts(_names, within_s=0.01) == set()
