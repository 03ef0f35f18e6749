"""A run of which nothing works ends soon, and one that has to wait goes on waiting."""

import random

import pytest
from tests.unit.coordinator.world import Started, World, config

from warren_broker.topology import IDLE_S
from warren_gateway.coordinator import ending
from warren_gateway.coordinator.rollouts import failure_limits
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind
from warren_schemas.events import Phase, RunState, StateChanged, WarningRaised
from warren_schemas.ids import WorkerId
from warren_schemas.transcript import Transcript

FAILED_GROUPS, GROUP_SIZE = 4, 4
ENOUGH = FAILED_GROUPS * GROUP_SIZE
PATIENT: dict[str, object] = {
    "limits": {"steps": 3, "episode_s": 50, "episode_attempts": 20, "failed_groups": FAILED_GROUPS}
}


def a_world(failure_rate: float) -> World:
    return World(config(**PATIENT), random.Random(2), failure_rate=failure_rate)


def fail_episodes(world: World, n: int) -> None:
    world.decide()
    while failure_limits.n_failed(world.state.rollouts) < n:
        world.move()
        assert not world.state.is_over


def test_attempts_count_like_members_as_long_as_no_episode_has_completed() -> None:
    state = a_world(failure_rate=1.0).drive(chaos=0.0)

    assert state.run_state is RunState.FAILED
    assert ENOUGH <= failure_limits.n_failed(state.rollouts) <= ENOUGH + 5


def test_an_environment_that_works_after_a_while_is_given_the_time() -> None:
    world = a_world(failure_rate=1.0)
    fail_episodes(world, ENOUGH - 6)
    world.failure_rate = 0.0

    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


@pytest.mark.slow
def test_once_an_episode_has_completed_each_is_tried_as_often_as_it_may() -> None:
    world = a_world(failure_rate=0.0)
    world.decide()
    while not any(group.ended for group in world.state.rollouts.groups.values()):
        world.move()
    world.failure_rate = 1.0
    fail_episodes(world, 3 * ENOUGH)
    world.failure_rate = 0.0

    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


def test_groups_that_run_out_of_time_together_end_the_run_once() -> None:
    limits = {"steps": 3, "episode_s": 50, "episode_attempts": 1, "failed_groups": 2}
    world = World(config(limits=limits), random.Random(2))
    world.decide()
    while len(world.state.rollouts.groups) < 2 * 2:
        world.train()
        world.read_mail()
    world.episodes.clear()
    world.now_s += 51.0

    world.decide()

    assert world.state.run_state is RunState.FAILED
    assert not world.state.rollouts.groups
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.state is RunState.FAILED


def test_a_failure_counts_once_and_is_told_once_whoever_reads_of_it() -> None:
    limits = {"steps": 3, "episode_s": 50, "episode_attempts": 1}
    world = World(config(limits=limits), random.Random(2), failure_rate=0.5)
    world.decide()
    while not failure_limits.n_failed(world.state.rollouts):
        world.move()
    n_failed = failure_limits.n_failed(world.state.rollouts)

    world.load()
    while world.n_read < len(world.stream):
        world.read_mail()

    assert failure_limits.n_failed(world.state.rollouts) == n_failed
    assert sum(isinstance(event.body, WarningRaised) for event in world.events) == 1


def test_what_the_store_can_t_take_is_left_out_of_the_reason() -> None:
    world = a_world(failure_rate=0.0)
    ending.end(world.state, ending.failed("it\0 broke"))

    change = world.state.take_change()

    assert change.run["error"] == "it broke"


def test_episodes_that_nobody_plays_are_waited_for() -> None:
    world = a_world(failure_rate=0.0)
    world.decide()
    while failure_limits.n_failed(world.state.rollouts) < 2 * ENOUGH:
        world.episodes.clear()
        world.now_s += 60.0
        world.read_mail()

    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


def late(item: Started) -> EpisodeEnded:
    """What an env worker says of an episode that it gets after its time."""
    failure = Failed(kind=FailureKind.DEADLINE, reason="its deadline passed while it waited")
    return EpisodeEnded(
        envelope=item.envelope, spec=item.spec, transcript=Transcript(), outcome=failure,
        worker=WorkerId("env"), started_s=0.0, ended_s=0.0,
    )  # fmt: skip


def crashed(item: Started) -> EpisodeEnded:
    failure = Failed(kind=FailureKind.ENVIRONMENT_CRASHED, reason="it crashed")
    return late(item).model_copy(update={"outcome": failure})


def test_late_starts_that_a_worker_refuses_while_the_sampler_is_away_cost_no_attempt() -> None:
    limits = {"steps": 3, "episode_s": 50, "episode_attempts": 1, "failed_groups": 1}
    world = World(config(limits=limits), random.Random(2), away=WorkerRole.SAMPLER)
    world.decide()
    while not world.episodes:
        world.train()
        world.read_mail()
    world.now_s += 60.0
    world.decide()
    world.stream += [late(item) for item in world.episodes]
    world.episodes.clear()
    world.read_mail()
    world.away = None

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.COMPLETED
    assert failure_limits.n_failed(state.rollouts) == 0


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_worker_that_comes_back_just_before_the_deadline_costs_no_attempt(
    is_taken_over: bool,
) -> None:
    limits = {"steps": 3, "episode_s": 50, "episode_attempts": 1, "failed_groups": 1}
    world = World(config(limits=limits), random.Random(2), away=WorkerRole.SAMPLER)
    world.decide()
    while not world.episodes:
        world.train()
        world.read_mail()
    world.episodes.clear()
    world.now_s += 49.0
    world.decide()
    world.away = None
    world.decide()
    if is_taken_over:
        world.load()
    world.now_s += 2.0

    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


@pytest.mark.parametrize("role", [WorkerRole.ENVIRONMENT, WorkerRole.SAMPLER])
def test_a_missing_worker_costs_no_attempt(role: WorkerRole) -> None:
    limits = {"steps": 3, "episode_s": 50, "episode_attempts": 1, "failed_groups": 1}
    world = World(config(limits=limits), random.Random(2))
    world.decide()
    while not world.episodes:
        world.train()
        world.read_mail()
    world.away = role
    for _ in range(10):
        world.episodes.clear()
        world.now_s += 60.0
        world.decide()
    world.away = None

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.COMPLETED
    assert failure_limits.n_failed(state.rollouts) == 0
    assert not any(isinstance(event.body, WarningRaised) for event in world.events)


def test_nothing_is_sent_to_an_environment_that_nobody_hosts() -> None:
    """Its queue would be there for ever, or go with what it holds."""
    world = World(config(), random.Random(2), away=WorkerRole.ENVIRONMENT)
    world.decide()
    while world.state.stage.phase is Phase.OPENING:
        world.train()
        world.read_mail()
    assert not world.episodes
    world.away = None
    world.decide()
    assert world.episodes


def test_an_attempt_that_fails_while_nobody_hosts_its_environment_waits() -> None:
    world = World(config(), random.Random(2))
    world.decide()
    while not world.episodes:
        world.train()
        world.read_mail()
    failed, n_started = world.episodes[0], len(world.episodes)
    world.away = WorkerRole.ENVIRONMENT
    world.decide()
    world.stream.append(crashed(failed))
    world.read_mail()
    assert len(world.episodes) == n_started
    world.away = None
    world.decide()
    again = [item for item in world.episodes[n_started:] if item.spec.group == failed.spec.group]
    assert {item.spec.member for item in again} == set(range(4))


@pytest.mark.parametrize("is_hosted_again", [False, True])
def test_what_a_forgotten_queue_held_is_started_anew_when_a_worker_comes(
    is_hosted_again: bool,
) -> None:
    """Also where the episodes have far more time than the queue."""
    world = World(config(limits={"steps": 3, "episode_s": 24 * IDLE_S}), random.Random(2))
    world.decide()
    while not world.episodes:
        world.train()
        world.read_mail()
    lost = len(world.episodes)
    world.episodes.clear()
    world.away = WorkerRole.ENVIRONMENT
    world.decide()
    world.now_s += IDLE_S / 2
    if is_hosted_again:  # nothing was lost yet
        world.away = None
    world.decide()
    world.away = WorkerRole.ENVIRONMENT
    world.decide()
    world.now_s += IDLE_S / 2
    world.decide()
    world.away = None
    world.decide()
    assert len(world.episodes) == (0 if is_hosted_again else lost)
