"""Groups in which episodes fail: tried again, left out, or dropped, as the run says."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.world import Started, World, config

from warren_gateway.coordinator import decisions
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.position import Position
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind
from warren_schemas.events import RunState
from warren_schemas.transcript import Transcript

SIZE = 4


def world(policy: dict[str, object], **limits: object) -> World:
    algorithm = {"group_size": SIZE, "groups_per_step": 1, "max_staleness": 0, "groups": policy}
    made = World(
        config(algorithm=algorithm, limits={"steps": 2, "episode_attempts": 2, **limits}),
        random.Random(1),
    )
    made.decide()
    while not made.episodes:
        made.read_mail()
    return made


def end(world: World, item: Started, outcome: Completed | Failed) -> None:
    ended = EpisodeEnded(
        envelope=Envelope(
            run=item.envelope.run, episode=item.envelope.episode, attempt=item.envelope.attempt
        ),
        spec=item.spec,
        transcript=Transcript(),
        outcome=outcome,
        worker="env",
        started_s=1.0,
        ended_s=2.0,
    )
    decisions.absorb_ending(world.state, ended, Position(world.state.rollouts.stream_offset))
    world.state.rollouts.stream_offset += 1
    world.decide()


def fail(world: World, item: Started) -> None:
    end(world, item, Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason="it broke"))


def taken(world: World) -> list[Started]:
    started, world.episodes = world.episodes, []
    return started


def group_of(world: World, item: Started) -> Group | None:
    return world.state.rollouts.groups.get(item.spec.group)


def test_retry_tries_again_and_then_goes_on_without() -> None:
    here = world({"kind": "retry"})
    first, *others = taken(here)
    fail(here, first)
    (second,) = taken(here)
    assert (second.envelope.attempt, second.spec.member) == (2, first.spec.member)
    fail(here, second)
    for reward, item in enumerate(others):
        end(here, item, Completed(reward=float(reward)))
    assert here.state.learning.steps.n_consumed == 1


def test_all_members_drops_a_group_in_which_one_failed_for_good() -> None:
    here = world({"kind": "all"})
    first, *_ = taken(here)
    fail(here, first)
    (second,) = taken(here)
    fail(here, second)
    assert group_of(here, first) is None
    assert len(taken(here)) == SIZE, "another group takes its place"
    assert here.state.learning.steps.n_consumed == 0


def test_the_members_that_a_dropped_group_has_in_the_air_are_cancelled() -> None:
    here = world({"kind": "quorum", "max_failed_members": 0})
    first, second, *others = taken(here)
    end(here, second, Completed(reward=1.0))
    fail(here, first)
    assert group_of(here, first) is None
    told = [(item.envelope.episode, item.envelope.attempt) for item in here.cancelled]
    assert told == [(item.envelope.episode, 1) for item in others]


def test_a_quorum_tries_nothing_again_and_bears_a_few() -> None:
    here = world({"kind": "quorum", "max_failed_members": 1})
    first, *others = taken(here)
    fail(here, first)
    assert not here.episodes
    for reward, item in enumerate(others):
        end(here, item, Completed(reward=float(reward)))
    assert here.state.learning.steps.n_consumed == 1


def test_a_quorum_is_dropped_as_soon_as_too_many_failed() -> None:
    here = world({"kind": "quorum", "max_failed_members": 1})
    first, second, *_ = taken(here)
    fail(here, first)
    fail(here, second)
    assert group_of(here, first) is None
    assert len(taken(here)) == SIZE


def test_in_a_quorum_a_deadline_is_a_failure() -> None:
    here = world({"kind": "quorum", "max_failed_members": 1}, episode_s=10)
    first, *others = taken(here)
    for reward, item in enumerate(others):
        end(here, item, Completed(reward=float(reward)))
    assert here.state.learning.steps.n_consumed == 0
    here.now_s += 11
    here.decide()
    assert first.spec.group not in here.state.rollouts.groups
    assert here.state.learning.steps.n_consumed == 1


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from([{"kind": "all"}, {"kind": "quorum"}, {"kind": "retry"}]),
)
def test_runs_end_under_every_policy(seed: int, policy: dict[str, object]) -> None:
    algorithm = {"group_size": SIZE, "groups_per_step": 2, "max_staleness": 1, "groups": policy}
    limits = {"steps": 4, "episode_s": 50, "failed_groups": 1000}
    here = World(config(algorithm=algorithm, limits=limits), random.Random(seed), failure_rate=0.15)
    state = here.drive(chaos=0.01)
    assert state.run_state is RunState.COMPLETED
    assert not [mark for mark, n in here.trained_episodes.items() if n > 1]


@pytest.mark.parametrize(("in_flight", "n_started"), [(1, 4), (4, 4), (11, 8), (1000, 40)])
def test_no_more_episodes_are_in_the_air_than_may_be(in_flight: int, n_started: int) -> None:
    """Nor less than a group, or nothing would ever move."""
    algorithm = {"group_size": SIZE, "groups_per_step": 10, "max_staleness": 0}
    limits = {"steps": 2, "in_flight": in_flight}
    here = World(config(algorithm=algorithm, limits=limits), random.Random(1))
    here.decide()
    while not here.episodes:
        here.read_mail()
    started = taken(here)
    assert len(started) == n_started
    for item in started[:SIZE]:
        end(here, item, Completed(reward=here.rng.random()))
    assert len(taken(here)) == (SIZE if n_started < 40 else 0)


def test_many_episodes_are_started_in_parts_with_room_for_others_between_them() -> None:
    n_groups = episodes.MOST_AT_ONCE * 2 // SIZE + 1
    algorithm = {"group_size": SIZE, "groups_per_step": n_groups, "max_staleness": 0}
    limits = {"steps": 2, "in_flight": 100_000}
    here = World(config(algorithm=algorithm, limits=limits), random.Random(1))
    here.decide()
    while not here.episodes:
        here.read_mail()
    for _ in range(2):
        assert len(taken(here)) == episodes.MOST_AT_ONCE
        assert decisions.next_deadline_s(here.state) <= here.now_s
        here.decide()
    assert len(taken(here)) == SIZE
    assert decisions.next_deadline_s(here.state) > here.now_s


def test_an_environment_that_restarts_moves_no_house() -> None:
    environments = [{"name": "guess", "recover": "restart"}]
    here = World(config(environments=environments), random.Random(1))
    here.decide()
    while not here.episodes:
        here.read_mail()
    assert {item.spec.n_recoveries_left for item in here.episodes} == {0}
