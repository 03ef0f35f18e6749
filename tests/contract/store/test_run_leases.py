"""Leases of runs, on both databases: one holder, and no write of a holder that was."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypeVar

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select
from tests.support.factories import make_episode_cancelled
from tests.support.gateway import CONFIG
from tests.support.patience import PATIENCE_S

from warren_broker.topology import CANCELLATIONS
from warren_gateway.coordinator import records, run_leases
from warren_gateway.coordinator.run_leases import LeaseLost, Renewed
from warren_gateway.store.outbox import post
from warren_gateway.store.store import GATEWAY, Store
from warren_gateway.store.tables import Model, OutboxRow, Run
from warren_schemas.ids import RunId

T = TypeVar("T")
RUN = RunId("run_1")
LEASE_S = 2 * PATIENCE_S
"""A lease runs out here by `lapse` alone, however long this process gets no CPU."""


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    await store.transact(lambda session: _add(session, RUN))
    yield store
    await store.close()


def _add(session: Session, run: str, state: str = "queued") -> None:
    session.add(
        Run(id=run, owner="me", name="r", config=CONFIG, state=state, n_steps=1, created_s=1.0)
    )
    session.flush()
    spec = {"base_model": "warren/tiny", "update": {"kind": "full"}}
    session.add(Model(id=f"model_of_{run}", run_id=run, base_model="warren/tiny", spec=spec))


async def claim(store: Store, gateway: str, *, is_alone: bool = False) -> dict[RunId, int]:
    return await store.transact(
        lambda session: run_leases.claim(session, gateway, lease_s=LEASE_S, is_alone=is_alone)
    )


async def renew(store: Store, gateway: str) -> Mapping[RunId, Renewed]:
    return await store.transact(
        lambda session: run_leases.renew(session, gateway, [RUN], lease_s=LEASE_S)
    )


async def lapse(store: Store) -> None:
    """The lease runs out."""

    def work(session: Session) -> None:
        session.exec(update(Run).values(leased_until_s=1.0))

    await store.transact(work)


def _post_as(gateway: str) -> Callable[[Session], None]:
    def work(session: Session) -> None:
        session.info[GATEWAY] = gateway
        post(session, CANCELLATIONS, make_episode_cancelled())

    return work


def _posters(session: Session) -> set[str]:
    return set(session.exec(select(OutboxRow.gateway)))


def fencing(epoch: int, revision: int) -> Callable[[Session], bool]:
    return lambda session: run_leases.fence(session, RUN, epoch=epoch, revision=revision)


async def test_what_changes_with_the_number_changes_once_and_never_without_the_lease(
    store: Store,
) -> None:
    await claim(store, "a")

    def to_step(step: int, *, epoch: int, revision: int) -> Callable[[Session], bool]:
        columns = {"step": step, "progress": {"step": step}}
        return lambda session: run_leases.fence(
            session, RUN, epoch=epoch, revision=revision, columns=columns
        )

    assert await store.transact(to_step(1, epoch=1, revision=1))
    assert not await store.transact(to_step(2, epoch=1, revision=1)), "it was committed before"
    with pytest.raises(LeaseLost):
        await store.transact(to_step(3, epoch=2, revision=2))
    run = await store.read(lambda session: session.get_one(Run, RUN))
    assert (run.step, run.progress, run.revision) == (1, {"step": 1}, 1)


async def test_a_run_is_held_by_one_gateway(store: Store) -> None:
    assert await claim(store, "a") == {RUN: 1}
    assert await claim(store, "b") == {}
    assert await claim(store, "a") == {}


async def test_a_lease_that_ran_out_goes_to_whoever_comes_first(store: Store) -> None:
    await claim(store, "a")
    await lapse(store)
    assert await claim(store, "b") == {RUN: 2}
    assert RUN not in await renew(store, "a")


async def test_a_lease_that_is_renewed_does_not_run_out(store: Store) -> None:
    await claim(store, "a")
    await lapse(store)
    assert (await renew(store, "a"))[RUN].epoch == 1
    assert await claim(store, "b") == {}


async def test_a_gateway_that_leaves_gives_its_leases_back(store: Store) -> None:
    await claim(store, "a")
    await store.transact(lambda session: run_leases.let_go(session, "a"))
    assert await claim(store, "b") == {RUN: 2}


async def test_the_owner_of_a_private_store_takes_over_at_once(store: Store) -> None:
    await claim(store, "a")
    assert await claim(store, "b", is_alone=True) == {RUN: 2}


async def test_a_run_that_a_gateway_can_not_read_is_left_to_others(store: Store) -> None:
    def claim_but_one(session: Session) -> dict[RunId, int]:
        return run_leases.claim(session, "older", lease_s=LEASE_S, but={RUN})

    assert await store.transact(claim_but_one) == {}
    assert await claim(store, "newer") == {RUN: 1}


async def test_a_zombie_writes_nothing(store: Store) -> None:
    await claim(store, "a")
    assert await store.transact(fencing(epoch=1, revision=1))
    await lapse(store)
    await claim(store, "b")
    with pytest.raises(LeaseLost):
        await store.transact(fencing(epoch=1, revision=2))
    assert await store.transact(fencing(epoch=2, revision=2))


async def test_a_change_whose_commit_was_not_heard_of_is_recognised(store: Store) -> None:
    await claim(store, "a")
    assert await store.transact(fencing(epoch=1, revision=1))
    assert not await store.transact(fencing(epoch=1, revision=1))
    assert await store.transact(fencing(epoch=1, revision=2))


async def test_a_change_that_comes_again_is_applied_once(store: Store) -> None:
    await claim(store, "a")
    state = await store.transact(lambda session: records.load(session, RUN, 1.0))
    state.change.run["name"] = "renamed"
    change = state.take_change()
    await store.transact(lambda session: records.save(session, state, change))

    def rename(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == RUN).values(name="later"))

    await store.transact(rename)
    await store.transact(lambda session: records.save(session, state, change))
    run = await store.transact(lambda session: session.get_one(Run, RUN))
    assert run.name == "later"


async def test_an_ended_run_is_held_until_it_is_cleaned_up(store: Store) -> None:
    await claim(store, "a")

    def end(session: Session) -> None:
        session.exec(update(Run).values(state="completed"))

    await store.transact(end)
    await lapse(store)
    assert await claim(store, "b") == {RUN: 2}
    await store.transact(lambda session: run_leases.settle(session, RUN, 2))
    assert await claim(store, "c") == {}


async def test_a_run_that_ended_before_there_were_leases_is_left_alone(store: Store) -> None:
    await store.transact(lambda session: _add(session, "run_2", "completed"))
    assert set(await claim(store, "a")) == {RUN}


async def test_what_a_dead_gateway_had_not_sent_goes_to_its_heir(store: Store) -> None:
    await claim(store, "a")
    await store.transact(_post_as("a"))
    await lapse(store)
    await claim(store, "b")
    assert await store.transact(_posters) == {"b"}


async def test_a_gateway_that_drives_other_runs_keeps_what_it_has_to_send(store: Store) -> None:
    await store.transact(lambda session: _add(session, "run_2"))
    await claim(store, "a")
    await store.transact(_post_as("a"))

    def lapse_one(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == RUN).values(leased_until_s=1.0))

    await store.transact(lapse_one)
    assert set(await claim(store, "b")) == {RUN}
    assert await store.transact(_posters) == {"a"}


async def test_the_next_look_is_due_when_the_lease_of_another_runs_out(store: Store) -> None:
    async def due_s(gateway: str) -> float | None:
        return await store.transact(lambda session: run_leases.until_next_lapse_s(session, gateway))

    assert await due_s("b") is None
    await claim(store, "a")
    assert await due_s("a") is None
    due_of_b_s = await due_s("b")
    assert due_of_b_s is not None and LEASE_S - PATIENCE_S < due_of_b_s <= LEASE_S
    await lapse(store)
    due_of_b_s = await due_s("b")
    assert due_of_b_s is not None and due_of_b_s < 0.0
