"""A run of which nothing works ends soon, and one that has to wait goes on waiting."""

import random

from tests.unit.coordinator.world import World, config

from warren_schemas.events import RunState

FAILED_GROUPS, GROUP_SIZE = 4, 4
ENOUGH = FAILED_GROUPS * GROUP_SIZE
PATIENT: dict[str, object] = {
    "limits": {"steps": 3, "episode_s": 50, "episode_attempts": 20, "failed_groups": FAILED_GROUPS}
}


def a_world(failure_rate: float) -> World:
    return World(config(**PATIENT), random.Random(2), failure_rate=failure_rate)


def fail_episodes(world: World, n: int) -> None:
    world.decide()
    while world.memory.progress.n_failed_episodes < n:
        world.move()
        assert not world.memory.is_over


def test_attempts_count_like_members_as_long_as_no_episode_has_completed() -> None:
    memory = a_world(failure_rate=1.0).drive(chaos=0.0)

    assert memory.state is RunState.FAILED
    assert ENOUGH <= memory.progress.n_failed_episodes <= ENOUGH + 5


def test_an_environment_that_works_after_a_while_is_given_the_time() -> None:
    world = a_world(failure_rate=1.0)
    fail_episodes(world, ENOUGH - 6)
    world.failure_rate = 0.0

    assert world.drive(chaos=0.0).state is RunState.COMPLETED


def test_once_an_episode_has_completed_each_is_tried_as_often_as_it_may() -> None:
    world = a_world(failure_rate=0.0)
    world.decide()
    while not world.memory.progress.n_episodes:
        world.move()
    world.failure_rate = 1.0
    fail_episodes(world, 3 * ENOUGH)
    world.failure_rate = 0.0

    assert world.drive(chaos=0.0).state is RunState.COMPLETED


def test_episodes_that_nobody_plays_are_waited_for() -> None:
    world = a_world(failure_rate=0.0)
    world.decide()
    while world.memory.progress.n_failed_episodes < 2 * ENOUGH:
        world.episodes.clear()
        world.now_s += 60.0
        world.read_mail()

    assert world.drive(chaos=0.0).state is RunState.COMPLETED
