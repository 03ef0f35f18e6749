"""A base model that a worker loads for a run: what the run says, and its state."""

import random

from tests.support.factories import make_heartbeat
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import waiting
from warren_gateway.coordinator.lease import loading
from warren_gateway.coordinator.lease.loading import GAP_S
from warren_gateway.loadable import LOADED_LATER
from warren_schemas.control import CannotLoad, Heartbeat, WorkerRole
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId


def test_what_samplers_lack_is_loaded_unless_a_trainer_alone_has_it() -> None:
    world = World(
        config(limits={"steps": 0}, evaluation={"after": True}, algorithm={}, checkpoint={}),
        random.Random(0),
    )
    sampler = make_heartbeat(role=WorkerRole.SAMPLER, offers=("other",), may_load=("t*",))
    trainers = list(world.alive(WorkerRole.TRAINER))

    def alive(role: WorkerRole | None) -> list[Heartbeat]:
        if role is WorkerRole.SAMPLER:
            return [sampler]
        return trainers if role is WorkerRole.TRAINER else list(world.alive(role))

    assert not world.state.needs_trainer
    assert (waiting.missing(world.state, alive) or "").endswith(
        "start one with: warren gpu-worker --base-model tiny"
    )
    trainers = []
    assert waiting.missing(world.state, alive) == (
        LOADED_LATER.format("tiny")
        + ", or have loaded as much for evaluations of yours as an hour allows"
    )
    why = (CannotLoad(base_model="tiny", reason="it is too large"),)
    refusing = sampler.model_copy(update={"cannot_load": why})
    sampler, ours = refusing, sampler
    assert (waiting.missing(world.state, alive) or "").startswith(
        f"no sampler offers tiny, and {sampler.worker} can't load tiny: it is too large; start one"
    )
    sampler = ours
    sampler = sampler.model_copy(update={"loading": ("tiny",)})
    assert (waiting.missing(world.state, alive) or "").startswith("loading tiny on ")


def waiting_world() -> World:
    """Its run waits for a trainer."""
    world = World(config(), random.Random(0))
    assert world.state.run_state is RunState.QUEUED and world.state.lease.holder is None
    return world


def trainer(name: str, **changes: object) -> Heartbeat:
    ours: dict[str, object] = {"role": WorkerRole.TRAINER, "worker": WorkerId(name), "offers": ()}
    return make_heartbeat(**(ours | changes))


def entered(world: World) -> list[tuple[RunState, str | None]]:
    return [(RunState(one["state"]), one["reason"]) for one in world.state.change.history]


def test_a_run_is_starting_while_its_base_model_is_loaded() -> None:
    world = waiting_world()
    loading.note_loading(
        world.state, [trainer("t0", offers=("other",)), trainer("t1", loading=("tiny",))]
    )
    loading.note_loading(world.state, [trainer("t1", loading=("tiny",))])
    assert entered(world) == [(RunState.STARTING, "loading tiny on t1")]
    world.state.now_s += GAP_S  # t1 left, and has not come again yet
    loading.note_loading(world.state, [])
    loading.note_loading(world.state, [trainer("t2", offers=("tiny",))])
    assert len(entered(world)) == 1


def test_a_run_whose_base_model_is_not_loaded_after_all_is_queued_again() -> None:
    world = waiting_world()
    loading.note_loading(world.state, [trainer("t1", loading=("tiny",))])
    world.state.now_s += GAP_S + 1
    loading.note_loading(world.state, [trainer("t1", offers=("other",))])
    assert entered(world)[1:] == [(RunState.QUEUED, "nobody loads tiny any more")]
    loading.note_loading(world.state, [trainer("t1", offers=("other",))])
    assert len(entered(world)) == 2


def test_another_gateway_that_takes_a_starting_run_over_waits_as_long() -> None:
    world = waiting_world()
    world.state.run_state = RunState.STARTING
    loading.note_loading(world.state, [])
    world.state.now_s += GAP_S
    loading.note_loading(world.state, [])
    assert entered(world) == []


def test_what_is_loaded_besides_a_trainer_that_has_it_starts_nothing() -> None:
    world = waiting_world()
    has, loads = trainer("t1", offers=("tiny",)), trainer("t2", loading=("tiny",))
    loading.note_loading(world.state, [has, loads])
    assert entered(world) == []
