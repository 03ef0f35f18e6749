"""The job of a run's model: who takes it is granted the lease, and nobody else keeps the model."""

import random

from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.lease import job, trainer_lease
from warren_schemas.control import HeldModel, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId
from warren_schemas.training import CloseModel, JobTaken


def taken(world: World, worker: str, epoch: int, late_after: int | None = None) -> None:
    """A trainer says that it has taken the job."""
    item = JobTaken(
        envelope=Envelope(),
        model=world.state.model,
        epoch=epoch,
        worker=WorkerId(worker),
        late_after=late_after,
    )
    job.absorb_taken(world.state, item)


def closed(world: World) -> list[tuple[str, int]]:
    """Who was told to let go, and of which epoch."""
    posts = world.state.take_change().posts
    return [
        (address.name, item.epoch)
        for address, items in posts.items()
        for item in items
        if isinstance(item, CloseModel)
    ]


def with_job_sent(state: RunState = RunState.QUEUED) -> World:
    world = World(config(), random.Random(0))
    world.state.run_state = state
    job.note_admission(world.state, True)
    job.send(world.state)
    world.state.take_change()
    return world


def test_of_twins_of_a_job_the_first_taker_is_granted_and_the_other_lets_go() -> None:
    world = with_job_sent()
    for worker in ("one", "one", "other"):
        taken(world, worker, 1)
    assert world.state.lease.taken_by == "one"
    assert closed(world) == [("trainer.other", 1)]
    trainer_lease.grant(world.state, WorkerId("one"))
    taken(world, "one", 1)
    assert closed(world) == []
    taken(world, "third", 1)
    assert closed(world) == [("trainer.third", 1)]
    assert (world.state.lease.holder, world.state.run_state) == ("one", RunState.STARTING)


def test_who_takes_an_older_job_or_one_of_a_run_that_is_over_lets_go() -> None:
    world = with_job_sent()
    world.state.now_s += trainer_lease.TAKING_S + 1
    assert trainer_lease.watch(world.state, [])
    assert world.state.change.job["state"] == "queued" and world.state.change.job["is_interrupted"]
    job.send(world.state)
    taken(world, "slow", 1)
    assert world.state.lease.taken_by is None
    assert closed(world) == [("trainer.slow", 1)]
    over = with_job_sent(RunState.CANCELLED)
    over.state.lease.is_job_sent = False
    taken(over, "slow", 1)
    assert closed(over) == [("trainer.slow", 1)]


def test_a_job_that_comes_late_by_its_epoch_goes_on_beyond_it() -> None:
    world = with_job_sent()
    taken(world, "one", 1, late_after=7)
    assert world.state.lease.epoch == 7 and not world.state.lease.is_job_sent
    job.send(world.state)
    assert world.state.lease.epoch == 8
    trainer_lease.grant(world.state, WorkerId("one"))
    taken(world, "one", 8, late_after=8)
    assert world.state.lease.holder == "one"


def test_a_live_trainer_that_takes_no_grant_loses_it_and_that_says_nothing_of_the_model() -> None:
    world = World(config(), random.Random(0))
    world.decide()
    world.decide()
    deaf = world.alive(WorkerRole.TRAINER)[0].model_copy(update={"models": ()})
    trainer_lease.revoke(world.state)
    before = world.state.lease.n_grants_in_vain
    job.send(world.state)
    trainer_lease.grant(world.state, deaf.worker)

    assert not trainer_lease.watch(world.state, [deaf])
    world.state.now_s += trainer_lease.TAKING_S + 1

    assert trainer_lease.watch(world.state, [deaf])
    assert world.state.lease.holder is None
    assert world.state.lease.n_grants_in_vain == before


def test_who_still_holds_an_older_lease_is_told_once_to_let_go() -> None:
    world = with_job_sent()
    held = (HeldModel(model=world.state.model, epoch=1),)
    (beat,) = world.alive(WorkerRole.TRAINER)
    old = beat.model_copy(update={"worker": WorkerId("old"), "models": held})
    trainer_lease.revoke(world.state)
    for _ in range(2):
        trainer_lease.watch(world.state, [old])
    assert closed(world) == [("trainer.old", 1)]
