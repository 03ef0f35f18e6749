"""Base models that nobody holds: which worker is told to load one, until when, and what if it dies."""

import time
from collections.abc import AsyncGenerator
from functools import partial

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select
from tests.support.factories import make_heartbeat
from tests.support.waiting_jobs import PLAYERS, submit, write

from warren_gateway.advice import SEPARATE_WORKERS
from warren_gateway.scheduling.loading import AGAIN_S, GAP_S
from warren_gateway.scheduling.passes import Outcome, run_pass
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, Run, ServedRow
from warren_schemas.codec.wire import decode
from warren_schemas.control import CannotLoad, Heartbeat, HeldModel, WorkerRole
from warren_schemas.ids import ModelId, RunId, WorkerId
from warren_schemas.training import LoadBaseModel

OWN, OTHER = "warren/tiny", "warren/other"
NOW_S = time.time()
LATER = f"no GPU worker has {OTHER} loaded, and those that may load it are at work"


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    store = await Store.open(any_store_url)
    yield store
    await store.close()


def gpu_worker(name: str, pid: int = 1, **changes: object) -> tuple[Heartbeat, Heartbeat]:
    """Its two roles."""
    ours = {
        "pid": pid,
        "host": "h",
        "offers": (OWN,),
        "may_load": (OTHER,),
        "in_flight": 0,
    } | changes
    sampler = make_heartbeat(role=WorkerRole.SAMPLER, worker=WorkerId(f"s-{name}"), **ours)
    return make_heartbeat(role=WorkerRole.TRAINER, worker=WorkerId(name), **ours), sampler


def loading(name: str, pid: int = 1) -> tuple[Heartbeat, Heartbeat]:
    return gpu_worker(name, pid, offers=(), loading=(OTHER,), may_load=(OWN,))


async def wait_for_other(store: Store, *numbers: int) -> None:
    await submit(store, *numbers)
    for n in numbers:
        await write(store, f"run_{n}", base_model=OTHER)


async def decide(store: Store, *workers: Heartbeat, now_s: float = NOW_S) -> Outcome:
    every = (*workers, PLAYERS[1])
    work = partial(run_pass, workers=every, advice=SEPARATE_WORKERS, now_s=now_s)
    return await store.transact(work)


async def told(store: Store) -> list[tuple[str, str]]:
    """Who was told to load what; those that are to leave are taken out of the outbox."""

    def work(session: Session) -> list[tuple[str, bytes]]:
        rows = session.exec(select(OutboxRow).where(col(OutboxRow.address).like("trainer.%"))).all()
        found = [(row.address, row.body) for row in rows]
        for row in rows:
            session.delete(row)
        return found

    bodies = await store.transact(work)
    items = [
        (to.removeprefix("trainer."), item) for to, body in bodies for item in decode(body).items
    ]
    return [(to, item.base_model) for to, item in items if isinstance(item, LoadBaseModel)]


def reason(outcome: Outcome, number: int = 1) -> str:
    return outcome.places[RunId(f"run_{number}")].reason


async def test_an_idle_worker_is_told_again_until_it_says_that_it_loads(store: Store) -> None:
    await wait_for_other(store, 1)
    first = await decide(store, *gpu_worker("a"))
    assert first.has_orders and await told(store) == [("a", OTHER)]
    assert reason(first) == f"loading {OTHER} on a"
    assert not (await decide(store, *gpu_worker("a"), now_s=NOW_S + AGAIN_S / 2)).has_orders
    assert (await decide(store, *gpu_worker("a"), now_s=NOW_S + AGAIN_S)).has_orders
    assert await told(store) == [("a", OTHER)]
    starting = await decide(store, *loading("b"), now_s=NOW_S + AGAIN_S)
    assert not starting.has_orders and reason(starting) == f"loading {OTHER} on b"
    ready = await decide(store, *gpu_worker("b", offers=(OTHER,), may_load=(OWN,)))
    assert ready.admitted == ("run_1",)


async def test_a_worker_that_left_to_load_is_waited_for_and_one_that_died_is_not(
    store: Store,
) -> None:
    await wait_for_other(store, 1)
    await decide(store, *gpu_worker("a"))
    assert await told(store) == [("a", OTHER)]
    away = await decide(store, *gpu_worker("c", 2), now_s=NOW_S + GAP_S / 2)
    assert await told(store) == [] and reason(away) == f"loading {OTHER} on a"
    both = (*loading("b"), *gpu_worker("c", 2))
    assert not (await decide(store, *both, now_s=NOW_S + GAP_S / 2)).has_orders
    await decide(store, *gpu_worker("c", 2), now_s=NOW_S + GAP_S)  # b died while it loaded
    assert await told(store) == [("c", OTHER)]


async def test_two_workers_load_one_base_model_for_jobs_of_other_sizes(store: Store) -> None:
    await wait_for_other(store, 1, 2)
    await write(store, "run_2", n_gpus=2)
    both = (*gpu_worker("a"), *gpu_worker("b", 2, n_devices=2))
    assert (await decide(store, *both)).has_orders
    assert sorted(await told(store)) == [("a", OTHER), ("b", OTHER)]
    assert not (await decide(store, *both, now_s=NOW_S + AGAIN_S / 2)).has_orders
    came = gpu_worker("c", offers=(OTHER,), may_load=(OWN,))  # a is back, b is not yet
    spare = gpu_worker("d", 3, n_devices=2)
    away = await decide(store, *came, *spare, now_s=NOW_S + GAP_S / 2)
    assert await told(store) == [] and reason(away, 2) == f"loading {OTHER} on b"


async def test_no_worker_gives_up_what_others_need(store: Store) -> None:
    await submit(store, 1)
    await write(store, "run_1", state="taken", worker="elsewhere")

    def goes_on(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == "run_1").values(state="running"))

    await store.transact(goes_on)
    await wait_for_other(store, 2)
    ours = gpu_worker("a")
    assert reason(await decide(store, *ours), 2) == LATER
    assert await told(store) == []
    spare = make_heartbeat(
        role=WorkerRole.SAMPLER, worker=WorkerId("spare"), offers=(OWN,), pid=9, in_flight=0
    )
    await decide(store, *ours, spare)
    assert await told(store) == [("a", OTHER)]

    def name_it(session: Session) -> None:
        session.exec(update(Run).values(state="completed"))
        session.add(ServedRow(owner="ann", name="n", base_model=OWN, since_s=1.0))

    await store.transact(name_it)
    await write(store, "run_1", state="over")
    await write(store, "run_2", state="over")
    await wait_for_other(store, 3)
    assert reason(await decide(store, *ours, now_s=NOW_S + AGAIN_S), 3) == LATER


async def test_a_worker_that_holds_models_or_samples_is_not_told(store: Store) -> None:
    await wait_for_other(store, 1)
    held = (HeldModel(model=ModelId("model_9"), epoch=1),)
    trainer, sampler = gpu_worker("a", models=held)
    assert reason(await decide(store, trainer, sampler)) != f"loading {OTHER} on a"
    trainer, sampler = gpu_worker("a")
    sampling = sampler.model_copy(update={"in_flight": 1})
    assert reason(await decide(store, trainer, sampling)) == LATER
    assert await told(store) == []


async def test_its_own_base_model_comes_back_the_same_way(store: Store) -> None:
    await submit(store, 1)
    outcome = await decide(store, *gpu_worker("b", offers=(OTHER,), may_load=(OWN,)))
    assert await told(store) == [("b", OWN)]
    assert reason(outcome) == f"loading {OWN} on b"


async def evaluate_other(store: Store, number: int) -> None:
    """A run that needs no trainer, and whose coordinator waits for samplers."""
    await wait_for_other(store, number)
    await write(store, f"run_{number}", state="over")

    def goes_on(session: Session) -> None:
        ours = col(Run.id) == f"run_{number}"
        session.exec(update(Run).where(ours).values(state="running", coordinator="gateway"))

    await store.transact(goes_on)


async def test_what_an_evaluation_needs_is_loaded_too_and_stays_until_it_is_over(
    store: Store,
) -> None:
    await evaluate_other(store, 1)
    assert (await decide(store, *gpu_worker("a"))).has_orders
    assert await told(store) == [("a", OTHER)]
    assert not (await decide(store, *loading("b"), now_s=NOW_S + AGAIN_S)).has_orders
    loaded = gpu_worker("b", offers=(OTHER,), may_load=(OWN,))
    await submit(store, 2)
    assert reason(await decide(store, *loaded), 2).startswith(f"no GPU worker has {OWN} loaded")
    assert await told(store) == []

    def ends(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == "run_1").values(state="completed"))

    await store.transact(ends)
    await decide(store, *loaded)
    assert await told(store) == [("b", OWN)]


async def test_nothing_is_loaded_for_an_evaluation_where_somebody_has_it(store: Store) -> None:
    await evaluate_other(store, 1)
    ours = gpu_worker("a")
    trainer, sampler = gpu_worker("b", 2, offers=(OTHER,), may_load=())
    for there in (trainer, sampler):
        await decide(store, *ours, there)
        assert await told(store) == []


async def test_what_a_pattern_names_is_loaded_and_what_a_worker_refuses_is_not(
    store: Store,
) -> None:
    await wait_for_other(store, 1)
    small = "its weights need 30.0 GiB of memory, and the GPU has 24.0 GiB"
    refusals = (CannotLoad(base_model=OTHER, reason=small),)
    refusing = gpu_worker("a", may_load=("warren/*",), cannot_load=refusals)
    outcome = await decide(store, *refusing)
    assert reason(outcome) == f"a can't load {OTHER}: {small}"
    assert await told(store) == []
    query = select(Run.waiting_for).where(col(Run.id) == "run_1")
    shown = await store.transact(lambda session: session.exec(query).one())
    assert shown is not None and f"a can't load {OTHER}: {small}" in shown
    await decide(store, *refusing, *gpu_worker("b", 2, may_load=("warren/*",)))
    assert await told(store) == [("b", OTHER)]
