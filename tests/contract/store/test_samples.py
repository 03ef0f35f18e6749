"""Samples that were asked for, in the store that gateways share: one holder, one outcome, told by any of them."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select

from warren_broker.topology import MODEL_ANSWERS
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, SamplingUse, TinkerSample, User
from warren_gateway.tinker.samples.completions import KEPT_S
from warren_gateway.tinker.samples.rows import (
    Elsewhere,
    FailedSample,
    SampleRows,
    Taken,
)
from warren_gateway.usage.counting import SampleUse, recent_use

NAME = "session_1:sample:0:7"


@pytest.fixture
async def stores(any_store_url: str) -> AsyncGenerator[tuple[Store, Store]]:
    """Of two gateways."""
    one, two = await Store.open(any_store_url), await Store.open(any_store_url)
    await one.transact(lambda session: session.add(User(name="ann", created_s=1.0)))
    yield one, two
    await one.close()
    await two.close()


def rows_of(store: Store) -> tuple[SampleRows, list[None]]:
    told = list[None]()
    return SampleRows(store, lambda: told.append(None)), told


async def test_a_sample_is_held_by_one_gateway_and_its_outcome_told_by_all(
    stores: tuple[Store, Store],
) -> None:
    (one, told), (two, _) = map(rows_of, stores)
    assert await one.add("ann", NAME, b"asked")
    assert not await two.add("ann", NAME, b"asked"), "the same name is one sample"
    if not stores[0].is_private:
        held = await two.find("ann", NAME)
        assert isinstance(held, Elsewhere) and held.for_s > 0
    assert await two.find("bob", NAME) is None
    assert await one.finish(NAME, b"first")
    assert not await two.finish(NAME, b"second"), "the first outcome stays"
    assert await one.find("ann", NAME) == await two.find("ann", NAME) == b"first"
    posted = await stores[0].transact(_posted)
    assert (posted, len(told)) == (([], 0) if stores[0].is_private else ([MODEL_ANSWERS.name], 1))


async def test_what_a_gateway_leaves_or_no_longer_holds_is_taken_over(
    stores: tuple[Store, Store],
) -> None:
    (one, _), (two, _) = map(rows_of, stores)
    await one.add("ann", NAME, b"asked")
    await one.release()
    assert await two.find("ann", NAME) == Taken(b"asked")
    await two.hold()
    await stores[0].transact(lambda session: _lapse(session, held_until_s=time.time()))
    assert await one.find("ann", NAME) == Taken(b"asked")


async def test_what_cant_be_asked_has_its_failure_at_once_and_goes_with_time(
    stores: tuple[Store, Store],
) -> None:
    (one, _), (two, _) = map(rows_of, stores)
    failed = FailedSample("no tokens", is_users=True)
    assert await one.add("ann", NAME, b"", failed)
    assert await two.find("ann", NAME) == failed
    await stores[0].transact(lambda session: _lapse(session, done_s=time.time() - KEPT_S - 1))
    await one.hold()
    assert await two.find("ann", NAME) is None


async def test_no_clock_of_a_gateway_decides_who_has_it(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    if stores[0].is_private:
        return  # there is one gateway, whose clock is the store's
    (one, _), (two, _) = map(rows_of, stores)
    await one.add("ann", NAME, b"asked")
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 2 * KEPT_S)
    await two.hold()
    assert isinstance(await two.find("ann", NAME), Elsewhere)


async def test_what_was_lost_is_asked_anew_and_what_is_done_is_not(
    stores: tuple[Store, Store],
) -> None:
    rows, _ = rows_of(stores[0])
    await rows.add("ann", NAME, b"asked")
    await rows.lose(NAME)
    assert await rows.find("ann", NAME) is None
    assert await rows.add("ann", NAME, b"again")
    await rows.release()
    assert await rows.find("ann", NAME) == Taken(b"again")
    await rows.finish(NAME, b"done")
    assert not await rows.add("ann", NAME, b"and again")
    assert await rows.find("ann", NAME) == b"done"


async def test_a_sample_is_cancelled_at_any_gateway_and_whoever_has_it_sees_so(
    stores: tuple[Store, Store],
) -> None:
    (one, _), (two, told) = map(rows_of, stores)
    await one.add("ann", NAME, b"asked")
    await two.cancel("bob", NAME)
    assert await one.hold() == {NAME}
    await two.cancel("ann", NAME)
    assert await one.hold() == set()
    assert await one.find("ann", NAME) is None
    posted = await stores[0].transact(_posted)
    assert posted == ([] if stores[0].is_private else [MODEL_ANSWERS.name])
    assert bool(told) is not stores[0].is_private


async def test_what_is_done_is_cancelled_no_more(stores: tuple[Store, Store]) -> None:
    rows, _ = rows_of(stores[0])
    await rows.add("ann", NAME, b"asked")
    await rows.finish(NAME, b"done")
    await rows.cancel("ann", NAME)
    assert await rows.find("ann", NAME) == b"done"


async def test_what_a_sample_took_is_counted_once_whoever_asks_again(
    stores: tuple[Store, Store],
) -> None:
    (one, _), (two, _) = map(rows_of, stores)
    used = SampleUse("none", "tiny", n_tokens_prompt=5, n_tokens_sampled=7, gpu_s=0.5)
    await one.add("ann", NAME, b"asked")
    await one.lose(NAME)
    await one.add("ann", NAME, b"asked")
    await one.release()  # its gateway stops, and has asked the samplers
    assert isinstance(await two.find("ann", NAME), Taken)
    await two.finish(NAME, b"done", used)
    await one.finish(NAME, b"late", used)
    failed, cancelled = f"{NAME}0", f"{NAME}1"
    await one.add("ann", failed, b"asked")
    await one.finish(failed, FailedSample("too long", is_users=True))
    await one.add("ann", cancelled, b"asked")
    await one.cancel("ann", cancelled)
    await one.finish(cancelled, b"nobody wants it", used)
    await asyncio.gather(one.hold(), two.hold())
    assert await stores[0].transact(_counted) == [("session_1", "", "tiny", "ann", 5, 7, 0.5)]
    assert await stores[0].transact(lambda s: recent_use(s, ["ann"], 0.0)) == {"ann": 0.5}


async def test_what_samples_took_is_added_up_by_session_and_model_before_they_go(
    stores: tuple[Store, Store],
) -> None:
    rows, _ = rows_of(stores[0])
    for n, (client, base) in enumerate(
        [("session_1", "tiny"), ("session_2", "tiny"), ("session_1", "other")] * 2
    ):
        name = f"{client}:sample:0:{n}"
        await rows.add("ann", name, b"asked")
        await rows.finish(name, b"done", SampleUse("none", base, 5, 7, 0.25))
    old = update(TinkerSample).values(done_s=time.time() - KEPT_S - 1)
    await stores[0].transact(lambda session: session.exec(old) and None)
    for _ in range(2):
        await rows.hold()
        assert sorted(await stores[0].transact(_counted)) == [
            ("session_1", "", "other", "ann", 10, 14, 0.5),
            ("session_1", "", "tiny", "ann", 10, 14, 0.5),
            ("session_2", "", "tiny", "ann", 10, 14, 0.5),
        ]
    assert not await stores[0].transact(lambda s: s.exec(select(TinkerSample.id)).all())


def _counted(session: Session) -> list[tuple[object, ...]]:
    rows = session.exec(select(SamplingUse)).all()
    keys = ("session_id", "run_id", "base_model", "owner")
    figures = ("n_tokens_prompt", "n_tokens_sampled", "gpu_s")
    return [tuple(getattr(row, name) for name in (*keys, *figures)) for row in rows]


def _lapse(session: Session, **values: float) -> None:
    session.exec(update(TinkerSample).where(col(TinkerSample.id) == NAME).values(**values))


def _posted(session: Session) -> list[str]:
    return list(session.exec(select(OutboxRow.address)))
