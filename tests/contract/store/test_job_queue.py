"""The scheduler's decisions in the store: order, room, and which runs have a coordinator."""

import time
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import event, update
from sqlmodel import Session, col, select
from tests.support.waiting_jobs import BASE, PLAYERS, decide, submit, trainer, write

from warren_gateway.advice import SEPARATE_WORKERS
from warren_gateway.coordinator import run_leases
from warren_gateway.scheduling.passes import run_pass
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, Run
from warren_schemas.codec.wire import decode
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import KeepForJob


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def test_no_more_jobs_are_admitted_than_there_is_room_and_in_the_order_of_submission(
    store: Store,
) -> None:
    await submit(store, 3, 1, 2, 4, 5)
    first = await decide(store, trainer("t"), *PLAYERS)
    assert set(first.admitted) == {"run_3", "run_1"}
    assert [first.places[RunId(f"run_{n}")].number for n in (2, 4, 5)] == [1, 2, 3]
    assert (await decide(store, trainer("t"), *PLAYERS)).admitted == ()
    await write(store, "run_3", state="taken", worker="t")
    assert (await decide(store, trainer("t", 3), *PLAYERS)).admitted == ()
    await write(store, "run_3", state="over")
    assert (await decide(store, trainer("t"), *PLAYERS)).admitted == ("run_2",)


async def test_a_higher_priority_goes_first_and_holds_from_the_next_decision_on(
    store: Store,
) -> None:
    await submit(store, 1, 2)

    def prefer(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == "run_2").values(priority=1))

    await store.transact(prefer)
    outcome = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert outcome.admitted == ("run_2",)


async def test_a_job_that_lost_its_trainer_goes_before_those_that_never_had_one(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3)
    await write(store, "run_3", is_interrupted=True)
    outcome = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert outcome.admitted == ("run_3",)


async def test_a_job_that_needs_several_gpus_waits_for_a_trainer_that_has_them(
    store: Store,
) -> None:
    await submit(store, 1)
    await write(store, "run_1", n_gpus=2)
    small, pair = trainer("t"), trainer("p", capacity=1).model_copy(update={"n_devices": 2})
    waits = await decide(store, small, *PLAYERS)
    assert waits.admitted == ()
    reason = "it needs 2 GPUs, and no GPU worker that trains warren/tiny has more than 1"
    assert waits.places[RunId("run_1")].reason == reason
    query = select(Run.waiting_for).where(col(Run.id) == "run_1")
    assert await store.transact(lambda session: session.exec(query).one()) == (
        "it needs 2 GPUs, and no trainer of warren/tiny has more than 1; start one with:"
        " warren gpu-worker --base-model warren/tiny --devices 2"
    )
    assert (await decide(store, small, pair, *PLAYERS)).admitted == ("run_1",)


@pytest.mark.parametrize("role", WorkerRole)
async def test_where_every_worker_is_drained_the_run_says_which_and_what_helps(
    store: Store, role: WorkerRole
) -> None:
    def drained(beat: Heartbeat) -> Heartbeat:
        changes = {"is_draining": True, "offers": (), "drained_offers": beat.offers}
        return beat.model_copy(update=changes) if beat.role is role else beat

    await submit(store, 1)
    workers = [drained(beat) for beat in (trainer("t"), *PLAYERS)]
    outcome = await decide(store, *workers)
    (worker,) = (beat.worker for beat in workers if beat.is_draining)
    helps = f"is drained; an admin has one take work again with: warren workers undrain {worker}"
    assert outcome.places[RunId("run_1")].reason.startswith("every ")
    assert outcome.places[RunId("run_1")].reason.endswith(helps)
    query = select(Run.waiting_for).where(col(Run.id) == "run_1")
    told = await store.transact(lambda session: session.exec(query).one())
    assert told == outcome.places[RunId("run_1")].reason
    assert (await decide(store, trainer("t"), *PLAYERS)).admitted == ("run_1",)


async def test_what_could_not_move_delays_nobody_and_its_owner_is_told(store: Store) -> None:
    await submit(store, 1, 2)
    await write(store, "run_1", environments=[("chess", "")])
    outcome = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert outcome.admitted == ("run_2",)
    assert outcome.told.has_told
    assert outcome.places[RunId("run_1")].reason.startswith("no env worker offers chess")
    query = select(Run.waiting_for).where(col(Run.id) == "run_1")
    told = await store.transact(lambda session: session.exec(query).one())
    assert (told or "").startswith("no env worker offers chess")
    assert not (await decide(store, trainer("t", capacity=1), *PLAYERS)).told.has_told


async def test_who_waits_is_told_whose_job_is_admitted_before_a_trainer_has_taken_it(
    store: Store,
) -> None:
    await submit(store, 1, 2)
    query = select(Run.waiting_for).where(col(Run.id) == "run_2")
    for _ in range(2):
        await decide(store, trainer("t", capacity=1), *PLAYERS)
        reason = await store.transact(lambda session: session.exec(query).one())
        assert reason is not None
        assert reason.startswith(f"every trainer that offers {BASE} is busy: r (run_1) has it;")


async def test_what_an_admitted_run_waited_for_before_is_not_told_to_the_next_one(
    store: Store,
) -> None:
    await submit(store, *range(1, 9))
    query = select(Run.waiting_for).where(col(Run.id) == "run_6")
    await decide(store, trainer("t", capacity=1), *PLAYERS)
    await write(store, "run_1", state="over")
    assert (await decide(store, trainer("t", capacity=1), *PLAYERS)).admitted == ("run_2",)
    reason = await store.transact(lambda session: session.exec(query).one())
    assert reason is not None
    assert reason.startswith(f"every trainer that offers {BASE} is busy: r (run_2) has it;")


async def test_a_decision_takes_as_many_statements_however_many_wait(store: Store) -> None:
    await submit(store, *range(5))
    few = await statements_of(store, trainer("t", capacity=1))
    await submit(store, *range(5, 40))
    assert await statements_of(store, trainer("t", capacity=1)) <= few


async def statements_of(store: Store, *workers: Heartbeat) -> int:
    """Of one decision that admits nobody and tells many why they wait."""
    n = 0

    def count(session: Session) -> None:
        def note(*_: object) -> None:
            nonlocal n
            n += 1

        connection = session.connection()
        event.listen(connection, "before_cursor_execute", note)
        run_pass(session, workers, SEPARATE_WORKERS, time.time())

    await store.transact(count)
    return n


async def test_a_run_that_was_never_admitted_has_no_coordinator_unless_it_is_cancelled(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3, 4)
    await write(store, "run_1", state="admitted")
    await write(store, "run_2", is_interrupted=True)

    def cancel(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == "run_3").values(is_cancel_requested=True))

    await store.transact(cancel)
    claimed = await store.transact(lambda session: run_leases.claim(session, "gateway"))
    assert sorted(claimed) == ["run_1", "run_2", "run_3"]


async def test_an_admission_outlives_the_gateway_that_made_it(store: Store) -> None:
    """It died before the run's coordinator sent the job: whoever takes the run up sends it."""
    await submit(store, 1)
    assert (await decide(store, trainer("t"), *PLAYERS)).admitted == ("run_1",)
    assert await store.transact(lambda session: run_leases.claim(session, "other")) == {"run_1": 1}
    renewed = await store.transact(
        lambda session: run_leases.renew(session, "other", [RunId("run_1")])
    )
    assert renewed[RunId("run_1")].is_admitted


async def orders(store: Store) -> list[KeepForJob]:
    """Those that are to leave, and are taken out of the outbox here."""

    def work(session: Session) -> list[bytes]:
        rows = session.exec(select(OutboxRow).where(col(OutboxRow.address) == "trainer.t")).all()
        bodies = [row.body for row in rows]
        for row in rows:
            session.delete(row)
        return bodies

    items = [item for body in await store.transact(work) for item in decode(body).items]
    return [item for item in items if isinstance(item, KeepForJob)]


async def test_a_trainer_is_told_what_it_is_kept_for_until_its_heartbeat_says_so(
    store: Store,
) -> None:
    await submit(store, 1)
    await decide(store, trainer("t"), *PLAYERS)
    await write(store, "run_1", state="taken", worker="t")
    await submit(store, 2, is_full=True)
    await submit(store, 3)
    beat = trainer("t", 1)
    assert (await decide(store, beat, *PLAYERS)).admitted == ()
    assert [order.model for order in await orders(store)] == ["model_2"]
    told = beat.model_copy(update={"kept_for": ModelId("model_2")})
    assert (await decide(store, told, *PLAYERS)).has_orders is False
    await write(store, "run_1", state="over")
    empty = trainer("t").model_copy(update={"kept_for": ModelId("model_2")})
    assert (await decide(store, empty, *PLAYERS)).admitted == ("run_2",)
    await write(store, "run_2", state="over")
    assert (await decide(store, empty, *PLAYERS)).admitted == ("run_3",)
    assert [order.model for order in await orders(store)] == [None]


async def test_a_paused_run_is_not_admitted_and_no_trainer_is_kept_for_it(store: Store) -> None:
    await submit(store, 1)
    await decide(store, trainer("t"), *PLAYERS)
    await write(store, "run_1", state="taken", worker="t")
    await submit(store, 2, is_full=True)
    await submit(store, 3)
    beat = trainer("t", 1)
    await decide(store, beat, *PLAYERS)
    assert [order.model for order in await orders(store)] == ["model_2"]
    kept = beat.model_copy(update={"kept_for": ModelId("model_2")})

    await write(store, "run_2", is_held_back=True)
    assert (await decide(store, kept, *PLAYERS)).admitted == ("run_3",)
    assert [order.model for order in await orders(store)] == [None]


async def test_a_resumed_run_has_its_place_behind_those_that_were_there_before(
    store: Store,
) -> None:
    await submit(store, 1, 2, 3)
    await write(store, "run_1", queued_s=2.0)
    outcome = await decide(store, trainer("t", capacity=1), *PLAYERS)
    assert outcome.admitted == ("run_2",)
    assert [outcome.places[RunId(f"run_{n}")].number for n in (3, 1)] == [1, 2]


async def test_who_has_a_coordinator_is_told_by_it_why_it_waits(store: Store) -> None:
    await submit(store, 1)

    def drive(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == "run_1").values(coordinator="gateway"))

    await store.transact(drive)
    assert not (await decide(store, *PLAYERS)).told.has_told
