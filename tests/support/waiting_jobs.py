"""Runs that wait for a trainer in a store, and the scheduler's decision on them."""

import time
from functools import partial

from sqlalchemy import update
from sqlmodel import Session, col
from tests.support.factories import make_heartbeat

from warren_gateway.advice import SEPARATE_WORKERS
from warren_gateway.scheduling.passes import Outcome, run_pass
from warren_gateway.store.store import Store
from warren_gateway.store.tables import JobRow, Model, Run
from warren_schemas.control import Heartbeat, HeldModel, WorkerRole
from warren_schemas.ids import ModelId, WorkerId

BASE = "warren/tiny"
PLAYERS = (
    make_heartbeat(role=WorkerRole.SAMPLER, offers=(BASE,), worker=WorkerId("sampler")),
    make_heartbeat(role=WorkerRole.ENVIRONMENT, offers=("guess",), worker=WorkerId("env")),
)


async def submit(store: Store, *numbers: int, is_full: bool = False) -> None:
    """Runs of one owner, in this order, long enough ago to be told why they wait."""

    def work(session: Session) -> None:
        for n in numbers:
            session.add(
                Run(
                    id=f"run_{n}", owner="ann", name="r", config={}, state="queued",
                    n_steps=1, created_s=1.0,
                )
            )  # fmt: skip
            session.flush()
            session.add(Model(id=f"model_{n}", run_id=f"run_{n}", base_model=BASE, spec={}))
            session.add(
                JobRow(
                    run_id=f"run_{n}", model_id=f"model_{n}", owner="ann", base_model=BASE,
                    is_full=is_full, plays_at_once=True, environments=[("guess", "")], queued_s=1.0,
                )
            )  # fmt: skip
            session.flush()

    await store.transact(work)


def trainer(name: str, *held: int, capacity: int = 2) -> Heartbeat:
    models = tuple(HeldModel(model=ModelId(f"model_{n}"), epoch=1) for n in held)
    return make_heartbeat(
        role=WorkerRole.TRAINER,
        worker=WorkerId(name),
        offers=(BASE,),
        capacity=capacity,
        in_flight=len(held),
        models=models,
    )


async def decide(store: Store, *workers: Heartbeat) -> Outcome:
    work = partial(run_pass, workers=workers, advice=SEPARATE_WORKERS, now_s=time.time())
    return await store.transact(work)


async def write(store: Store, run: str, **values: object) -> None:
    def work(session: Session) -> None:
        session.exec(update(JobRow).where(col(JobRow.run_id) == run).values(**values))

    await store.transact(work)
