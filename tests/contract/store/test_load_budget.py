"""What evaluations have workers load is held to a budget of their owners."""

import time
from collections.abc import AsyncGenerator
from functools import partial

import pytest
from sqlalchemy import update
from sqlmodel import Session, col
from tests.contract.store.test_loading import evaluate_other, gpu_worker, told
from tests.support.waiting_jobs import PLAYERS, submit, write

from warren_gateway.advice import SEPARATE_WORKERS
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.scheduling.loading import AGAIN_S, GAP_S
from warren_gateway.scheduling.passes import run_pass
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run, User
from warren_gateway.usage.evaluated import HOUR_S
from warren_gateway.usage.limits import OwnerLimits
from warren_schemas.control import Heartbeat

NOW_S = time.time()


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def evaluate(store: Store, number: int, base: str, owner: str = "ann") -> None:
    """An evaluation of a base model that nobody has."""
    await evaluate_other(store, number)
    await write(store, f"run_{number}", base_model=base, owner=owner)


async def end(store: Store, number: int) -> None:
    def work(session: Session) -> None:
        ours = col(Run.id) == f"run_{number}"
        session.exec(update(Run).where(ours).values(state="completed"))

    await store.transact(work)


def idle(name: str, pid: int = 1) -> tuple[Heartbeat, Heartbeat]:
    return gpu_worker(name, pid, may_load=("hub/*",))


async def decide_within(
    store: Store, n_most: int, *workers: Heartbeat, now_s: float = NOW_S
) -> list[str]:
    """What is told to be loaded where an owner's evaluations may have so many loaded in an hour."""
    limits = OwnerLimits(BudgetOptions(evaluated_models_per_hour_per_owner=n_most))
    every = (*workers, PLAYERS[1])
    work = partial(run_pass, workers=every, advice=SEPARATE_WORKERS, now_s=now_s, limits=limits)
    await store.transact(work)
    return sorted(base for _, base in await told(store))


async def test_evaluations_of_one_owner_have_no_more_loaded_in_an_hour_than_their_budget(
    store: Store,
) -> None:
    for n in range(4):
        await evaluate(store, n, f"hub/{n}")
        found = await decide_within(store, 2, *idle(f"w{n}"), now_s=NOW_S + n * GAP_S)
        assert found == ([f"hub/{n}"] if n < 2 else [])
        if n < 2:
            await end(store, n)
    await evaluate(store, 4, "hub/4", owner="bob")
    assert await decide_within(store, 2, *idle("w4"), now_s=NOW_S + 4 * GAP_S) == ["hub/4"]
    await end(store, 4)
    assert await decide_within(store, 2, *idle("w5"), now_s=NOW_S + HOUR_S) == ["hub/2"]


async def test_what_is_wanted_at_once_is_held_to_the_budget_too(store: Store) -> None:
    for n in range(3):
        await evaluate(store, n, f"hub/{n}")
    idlers = [beat for n in range(3) for beat in idle(f"w{n}", n + 1)]
    assert await decide_within(store, 2, *idlers) == ["hub/0", "hub/1"]


async def test_what_was_told_is_told_again_though_the_budget_is_used_up(store: Store) -> None:
    await evaluate(store, 1, "hub/1")
    for n_again in range(3):
        at_s = NOW_S + n_again * AGAIN_S
        assert await decide_within(store, 1, *idle("a"), now_s=at_s) == ["hub/1"]


async def test_what_a_job_that_trains_wants_as_well_uses_up_no_budget(store: Store) -> None:
    await evaluate(store, 1, "hub/1")
    await submit(store, 2)
    await write(store, "run_2", base_model="hub/1")
    assert await decide_within(store, 1, *idle("a")) == ["hub/1"]
    await end(store, 1)
    await end(store, 2)
    await write(store, "run_2", state="over")
    await evaluate(store, 3, "hub/3")
    assert await decide_within(store, 1, *idle("b"), now_s=NOW_S + GAP_S) == ["hub/3"]


async def test_what_is_set_for_a_user_holds_for_them_alone(store: Store) -> None:
    limits = {"evaluated_models_per_hour": 0}
    await store.transact(lambda session: session.add(User(name="ann", created_s=0, limits=limits)))
    await evaluate(store, 1, "hub/1")
    await evaluate(store, 2, "hub/2", owner="bob")
    assert await decide_within(store, 1, *idle("a"), *idle("b", 2)) == ["hub/2"]
