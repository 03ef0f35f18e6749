"""A run that waits for an environment does not keep a trainer of its own from others."""

import random

from tests.unit.coordinator.test_stalled import pass_time, told, until
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import decisions
from warren_gateway.coordinator.rollouts import failure_limits
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.training import CloseModel, SaveState

STALLED_AFTER_S = 300.0
FREE = "; others may have its trainer meanwhile"


def full(**changes: object) -> TrainConfig:
    limits = {"steps": 6, "episode_s": 50, "stalled_after_s": STALLED_AFTER_S}
    return config(model={"base": "tiny", "update": {"kind": "full"}}, limits=limits, **changes)


def answer_all(world: World) -> None:
    world.decide()
    while world.state.learning.ops.done < world.state.learning.ops.last:
        world.train()
        world.read_mail()


def lose_environment(world: World, *left: str) -> World:
    """In the middle of the run, with every op answered."""
    until(world, lambda: world.state.learning.steps.n_published >= 2)
    world.environments = left
    answer_all(world)
    return world


def wait_for_release(world: World) -> None:
    pass_time(world, STALLED_AFTER_S + 10)
    answer_all(world)
    world.decide()
    assert world.state.lease.holder is None


def test_it_is_saved_and_given_back_and_taken_again_when_somebody_hosts() -> None:
    world = lose_environment(World(full(), random.Random(3)))
    pass_time(world, STALLED_AFTER_S - 20)
    assert world.state.lease.holder is not None
    wait_for_release(world)

    assert isinstance(world.applied[world.state.learning.ops.last].body, SaveState)
    assert world.state.learning.checkpoints.newest_op == world.state.learning.ops.last
    assert any(isinstance(item, CloseModel) for item in world.endings)
    assert told(world)[-1].startswith("no env worker offers guess") and told(world)[-1].endswith(
        FREE
    )

    world.load()
    pass_time(world, 7200)
    assert not decisions.wants_trainer(world.state, world.alive)
    world.environments = ("guess",)
    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED
    assert set(world.trained_episodes.values()) == {1}
    assert failure_limits.n_failed(world.state.rollouts) == 0


def test_however_often_that_happens_it_counts_as_no_loss() -> None:
    world = lose_environment(World(full(), random.Random(3)))
    for _ in range(8):
        world.environments = ()
        wait_for_release(world)
        world.environments = ("guess",)
        until(world, lambda: world.state.lease.is_opened)
        answer_all(world)
    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


def test_it_is_kept_while_episodes_of_another_environment_are_in_flight() -> None:
    two = [{"name": "guess"}, {"name": "other"}]
    world = lose_environment(World(full(environments=two), random.Random(3)), "guess")
    groups = world.state.rollouts.groups.values()
    assert any(group.environment == 0 and not group.is_complete for group in groups)
    pass_time(world, 2 * STALLED_AFTER_S)
    assert world.state.lease.holder is not None


def test_an_adapter_keeps_a_trainer_that_has_room_for_others() -> None:
    limits = {"steps": 6, "episode_s": 50, "stalled_after_s": STALLED_AFTER_S}
    world = lose_environment(World(config(limits=limits), random.Random(3)))
    pass_time(world, 3 * STALLED_AFTER_S)
    assert world.state.lease.holder is not None
    assert not told(world)[-1].endswith(FREE)
