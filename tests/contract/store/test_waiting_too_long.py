"""Runs that may not wait for ever, in the queue: given up by the scheduler, ended by a coordinator."""

import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import Session, col
from tests.contract.store.test_verbs import ask, row_of
from tests.support.gateway import CONFIG, Gateway
from tests.support.waiting_jobs import PLAYERS, decide, trainer

from warren_gateway.coordinator import decisions, records, run_leases
from warren_gateway.store.store import Store
from warren_gateway.store.tables import JobRow, Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

LIMIT_S = 60.0


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def queued(
    gateway: Gateway, ago_s: float, wait_s: float | None = LIMIT_S, **job: Any
) -> RunId:
    run = await gateway.submit(config={**CONFIG, "limits": {"wait_s": wait_s}})
    values = {"queued_s": time.time() - ago_s, **job}
    change = update(JobRow).where(col(JobRow.run_id) == run).values(**values)
    await gateway.store.transact(lambda session: session.exec(change))
    return run


async def test_a_run_that_was_queued_for_too_long_fails_with_the_reason(gateway: Gateway) -> None:
    late = await queued(gateway, 2 * LIMIT_S)
    others = [await queued(gateway, LIMIT_S / 2), await queued(gateway, 2 * LIMIT_S, None)]

    outcome = await decide(gateway.store, *PLAYERS)
    assert outcome.given_up == (late,)
    assert (await decide(gateway.store, *PLAYERS)).given_up == (), "once"
    assert [(await row_of(gateway, run)).given_up for run in others] == [None, None]

    claimed = await gateway.store.transact(lambda session: run_leases.claim(session, "g"))
    assert set(claimed) == {late}

    def end(session: Session) -> None:
        state = records.load(session, late, time.time())
        decisions.decide(state, lambda _: PLAYERS)
        records.save(session, state, state.take_change())

    await gateway.store.transact(end)
    row = await row_of(gateway, late)
    assert row.state == RunState.FAILED
    assert "s, and limits.wait_s is 60: no GPU worker that is online trains" in (row.error or "")
    left = await decide(gateway.store, *PLAYERS)
    assert set(left.places) == set(others)


async def test_a_run_that_gets_its_trainer_in_the_same_decision_is_not_given_up(
    gateway: Gateway,
) -> None:
    late = await queued(gateway, 2 * LIMIT_S)
    outcome = await decide(gateway.store, trainer("t"), *PLAYERS)
    assert (outcome.admitted, outcome.given_up) == ((late,), ())


@pytest.mark.parametrize(
    "job", [{"is_held_back": True}, {"is_interrupted": True}, {"admitted_s": 1.0}]
)
async def test_what_a_coordinator_knows_better_is_left_to_it(
    gateway: Gateway, job: dict[str, Any]
) -> None:
    """It is paused, or had a trainer, or nobody took its message."""
    await queued(gateway, 2 * LIMIT_S, **job)
    assert (await decide(gateway.store, *PLAYERS)).given_up == ()


async def test_the_deadline_of_a_queued_run_can_be_set(gateway: Gateway) -> None:
    run = await queued(gateway, 2 * LIMIT_S)
    status, _ = await ask(gateway, run, "set", limits={"wait_s": 10 * LIMIT_S})
    assert status == 200
    assert (await decide(gateway.store, *PLAYERS)).given_up == ()
    assert (await ask(gateway, run, "set", limits={"wait_s": LIMIT_S}))[0] == 200
    assert (await decide(gateway.store, *PLAYERS)).given_up == (run,)


async def test_a_run_that_was_given_up_is_that_for_whoever_takes_it_up(gateway: Gateway) -> None:
    run = await queued(gateway, 2 * LIMIT_S)
    await decide(gateway.store, *PLAYERS)
    change = update(Run).where(col(Run.id) == run).values(coordinator="g")
    await gateway.store.transact(lambda session: session.exec(change))
    renewed = await gateway.store.transact(lambda session: run_leases.renew(session, "g", [run]))
    assert renewed[run].given_up is not None
