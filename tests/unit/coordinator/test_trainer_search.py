"""Who has the trainers, as a run learns it that waits for one."""

import random
from functools import partial

from sqlmodel import Session
from tests.support.factories import make_heartbeat
from tests.unit.coordinator.world import RUN, World, config

from warren_broker.port import Broker
from warren_gateway.coordinator import waiting
from warren_gateway.coordinator.retrying import Retrying
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.trainer_search import TrainerSearch
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_gateway.store.tables import JobRow, Model, Run
from warren_schemas.control import Heartbeat, HeldModel, WorkerRole
from warren_schemas.ids import ModelId

OTHER = ModelId("model_other")


def trainer(*held: ModelId, n_kept: int = 0) -> Heartbeat:
    models = tuple(HeldModel(model=model, epoch=1) for model in held)
    n_in_flight = len(models) + n_kept
    return make_heartbeat(
        role=WorkerRole.TRAINER, offers=("tiny",), models=models, in_flight=n_in_flight, capacity=1
    )


def add_other(session: Session) -> None:
    session.add(
        Run(
            id="run_other",
            owner="me",
            name="other",
            config={},
            state="running",
            n_steps=1,
            created_s=0.0,
        )
    )
    session.flush()
    session.add(Model(id=OTHER, run_id="run_other", base_model="tiny", spec={}))


async def searching(
    store: Store, broker: Broker
) -> tuple[CoordinatorState, Registry, TrainerSearch]:
    await store.transact(add_other)
    state, registry = World(config(), random.Random(1)).state, Registry(broker)
    retrying = Retrying(RUN, store, broker, 0.0, was_away=lambda: None)
    nothing = partial(store.read, lambda session: None)
    search = TrainerSearch(state, registry, retrying, Relay(store, broker), commit=nothing)
    return state, registry, search


async def test_a_run_that_took_the_trainer_since_the_last_look_is_known_at_once(
    store: Store, broker: Broker
) -> None:
    state, registry, search = await searching(store, broker)
    registry.hear(trainer())
    await search.go_on()
    assert state.observed.trained_runs == {}
    registry.hear(trainer(OTHER))
    await search.go_on()
    assert [run.name for run in state.observed.trained_runs.values()] == ["other"]


async def test_a_run_for_which_the_trainer_keeps_room_is_named(
    store: Store, broker: Broker
) -> None:
    """It was admitted, and its coordinator has not yet said that it waits no longer."""
    state, registry, search = await searching(store, broker)
    registry.hear(trainer())
    await search.go_on()

    def admit(session: Session) -> None:
        row = session.get_one(Run, "run_other")
        row.waiting_for = "every trainer that offers tiny is busy; wait until it ends"
        session.add(
            JobRow(
                run_id=row.id,
                model_id=OTHER,
                owner="me",
                base_model="tiny",
                state="admitted",
                is_full=False,
                plays_at_once=True,
                environments=[],
                queued_s=0.0,
            )
        )

    await store.transact(admit)
    registry.hear(trainer(n_kept=1))
    await search.go_on()
    registry.hear(make_heartbeat(worker="s", role=WorkerRole.SAMPLER, offers=("tiny",)))
    registry.hear(
        make_heartbeat(worker="e", role=WorkerRole.ENVIRONMENT, offers=("guess", "other"))
    )
    reason = waiting.missing(state, registry.alive) or ""
    assert "is busy: other (run_other) has it" in reason
