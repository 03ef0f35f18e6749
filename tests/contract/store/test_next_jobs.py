"""What follows a run that ends at once: its slot counts as free, and coordinators of the next jobs are ready."""

import time
from collections.abc import AsyncGenerator

import pytest
from sqlmodel import col, select
from tests.support.waiting_jobs import PLAYERS, decide, submit, trainer, write

from warren_broker.topology import RUN_CHANGES
from warren_gateway.coordinator import run_leases
from warren_gateway.scheduling.closing_models import GRACE_S
from warren_gateway.scheduling.decision.decide import N_NEXT
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, Run
from warren_schemas.codec.wire import decode
from warren_schemas.control import RunChanged


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def coordinators(store: Store) -> dict[str, str]:
    """Who drives what, or is to."""
    rows = await store.transact(lambda session: session.exec(select(Run.id, Run.coordinator)).all())
    return {run: gateway for run, gateway in rows if gateway is not None}


async def test_the_slot_of_a_run_that_has_ended_is_free_before_its_trainer_says_so(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await write(store, "run_1", state="taken", worker="t")
    holding = trainer("t", 1, capacity=1)
    assert (await decide(store, holding, *PLAYERS)).admitted == ()
    await write(store, "run_1", state="over", over_s=time.time())
    assert (await decide(store, holding, *PLAYERS)).admitted == ("run_2",)
    assert (await decide(store, holding, *PLAYERS)).admitted == ()


@pytest.mark.parametrize("ago_s", [GRACE_S, -60.0])
async def test_the_slot_of_a_trainer_that_does_not_let_go_is_taken(
    store: Store, ago_s: float
) -> None:
    """Also where the time of the end is one that has not come."""
    await submit(store, 1, 2)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await write(store, "run_1", state="over", over_s=time.time() - ago_s)
    assert (await decide(store, trainer("t", 1, capacity=1), *PLAYERS)).admitted == ()
    assert (await decide(store, trainer("t", capacity=1), *PLAYERS)).admitted == ("run_2",)


async def test_a_job_that_lost_its_trainer_leaves_no_slot_before_the_trainer_says_so(
    store: Store,
) -> None:
    await submit(store, 1, 2)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await write(store, "run_1", state="queued", is_interrupted=True)
    assert (await decide(store, trainer("t", 1, capacity=1), *PLAYERS)).admitted == ()


async def test_the_next_jobs_have_coordinators_which_wait_to_be_admitted(store: Store) -> None:
    await submit(store, *range(2 * N_NEXT))
    first = await decide(store, trainer("t", capacity=1), *PLAYERS)
    following = [f"run_{n}" for n in range(1, 1 + N_NEXT)]
    assert (first.admitted, list(first.next)) == (("run_0",), following)
    claimed = await store.transact(lambda session: run_leases.claim(session, "other"))
    assert sorted(claimed) == sorted(["run_0", *following])
    assert set((await coordinators(store)).values()) == {"other"}
    renewed = await store.transact(
        lambda session: run_leases.renew(session, "other", list(claimed))
    )
    assert [run for run, told in renewed.items() if told.is_admitted] == ["run_0"]


async def test_who_has_a_coordinator_keeps_it(store: Store) -> None:
    await submit(store, 1, 2)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await store.transact(lambda session: run_leases.claim(session, "other"))
    again = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert again.next == () and set((await coordinators(store)).values()) == {"other"}
    held = select(Run.leased_until_s).where(col(Run.leased_until_s) > 0.0)
    assert len(await store.transact(lambda session: session.exec(held).all())) == 2


async def test_the_gateway_that_drives_an_admitted_run_hears_of_it_from_the_one_that_decided(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await store.transact(lambda session: run_leases.claim(session, "other"))
    await write(store, "run_1", state="over", over_s=time.time())
    decided = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert (decided.admitted, decided.has_orders) == (("run_2",), True)
    assert await told_of(store) == ["run_2"]


async def test_no_message_goes_to_the_gateway_that_decided_or_for_a_run_that_nobody_drives(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3)
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await store.transact(lambda session: run_leases.claim(session, store.gateway))
    await write(store, "run_1", state="over", over_s=time.time())
    assert (await decide(store, trainer("t", capacity=1), *PLAYERS)).admitted == ("run_2",)
    assert await told_of(store) == []


async def told_of(store: Store) -> list[str]:
    """The runs of which gateways are told that they have changed."""
    bodies = select(OutboxRow.body).where(col(OutboxRow.address) == RUN_CHANGES.name)
    found = await store.transact(lambda session: session.exec(bodies).all())
    items = [item for body in found for item in decode(body).items]
    return [item.changed_run for item in items if isinstance(item, RunChanged)]
