"""Replays that go through their recordings several times, and in another order: the same one whoever dies."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlmodel import Session, col, select
from tests.support.factories import make_episode_ended, make_transcript
from tests.support.groups import group_of
from tests.unit.coordinator.test_filtered_recordings import groups_of, played, replayed
from tests.unit.coordinator.test_recording import SFT, ops_of
from tests.unit.coordinator.world import ReplayWorld, World, config

from warren_gateway.coordinator.replaying.shuffling import MOST_BYTES, Window
from warren_gateway.coordinator.state.change import recorded_id
from warren_gateway.coordinator.state.group_parts import Reading
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.store.tables import GroupRow
from warren_schemas.config import RecordedSource
from warren_schemas.events import RunState
from warren_schemas.ids import GroupId
from warren_schemas.training import ForwardBackward
from warren_schemas.transcript import ChatMessage


def steps_of(world: World) -> list[Counter[str]]:
    """The groups of each step."""
    with Session(world.engine) as session:
        rows = session.exec(select(GroupRow).where(col(GroupRow.run_id) == world.run)).all()
    steps = defaultdict[int, Counter[str]](Counter)
    for row in rows:
        for outcome in (row.outcomes or [])[:1]:
            if outcome.get("fate") == "trained":
                steps[outcome["step"]][recorded_id(row.id)[0]] += 1
    return [steps[step] for step in sorted(steps)]


def in_steps(groups: Sequence[str]) -> list[Counter[str]]:
    """Of two; a last one that is not full is none."""
    return [Counter(groups[i : i + 2]) for i in range(0, len(groups) - 1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_every_epoch_goes_through_all_groups_in_their_order(chaos: float) -> None:
    recorded = played(7)
    order = list(groups_of(recorded.stream))
    world = replayed(recorded, chaos, epochs=3)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert steps_of(world) == in_steps(order * 3)


def test_an_epoch_that_fills_no_step_is_filled_up_by_the_next_one() -> None:
    recorded = played(7)
    version = {"max_version": 0, "environments": ["other"]}
    once = replayed(recorded, where=version)
    [group, *_] = groups = [
        name
        for name, items in groups_of(recorded.stream).items()
        if items[0].spec.environment == "other"
        if max(item.transcript.newest_version for item in items) == 0
    ]
    n = len(groups)
    twice = replayed(recorded, 0.02, where=version, epochs=2)
    assert len(steps_of(once)) == n // 2 and len(steps_of(twice)) == n
    assert steps_of(twice) == in_steps(groups * 2) and group in steps_of(twice)[0]


def test_a_filter_that_leaves_nothing_ends_after_one_epoch() -> None:
    world = replayed(played(7), epochs=10**12, where={"fates": ["stale"]})
    assert world.state.run_state is RunState.FAILED
    assert "the recording holds no 2 complete groups" in world.error


@pytest.mark.slow
def test_the_last_step_ends_a_replay_in_the_middle_of_its_epochs() -> None:
    recorded = played(7)
    world = ReplayWorld.of(
        recorded, random.Random(1), source={"epochs": 10**12}, limits={"steps": 40}
    )
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED
    assert len(steps_of(world)) == 40


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(window=st.sampled_from([2, 3, 5, 1000]), seed=st.integers(0, 1000))
def test_the_order_is_the_same_whoever_dies_and_each_group_comes_once_in_an_epoch(
    window: int, seed: int
) -> None:
    recorded = played(7)
    source = {"epochs": 2, "shuffle_window": window}
    calm, rough = (
        ReplayWorld.of(recorded, random.Random(seed), source=source, limits={"steps": 1000})
        for _ in range(2)
    )
    calm.drive(0.0)
    rough.drive(0.02)
    assert calm.state.run_state is rough.state.run_state is RunState.COMPLETED
    assert ops_of(calm) == ops_of(rough)
    counts = sum(steps_of(calm), Counter[str]())
    n = len(groups_of(recorded.stream))
    assert counts.total() == 2 * n // 2 * 2 and max(counts.values()) == 2
    assert steps_of(calm) != in_steps(list(groups_of(recorded.stream)) * 2)


@pytest.mark.slow
def test_another_seed_gives_another_order_and_every_epoch_has_its_own() -> None:
    recorded = played(7)
    source = {"epochs": 2, "shuffle_window": 1000}
    one, other = (
        ReplayWorld.of(recorded, random.Random(3), source=source, limits={"steps": 1000}, seed=seed)
        for seed in (0, 5)
    )
    for world in (one, other):
        world.drive(0.0)
    assert steps_of(one) != steps_of(other)
    n = len(steps_of(one)) // 2
    assert steps_of(one)[:n] != steps_of(one)[n:]


@pytest.mark.slow
def test_demonstrations_are_learned_once_and_shuffled_among_themselves() -> None:
    recorded = World(config(sft=SFT), random.Random(4))
    recorded.drive(0.0)
    worlds = [
        ReplayWorld.of(recorded, random.Random(5), source=source, limits={"steps": 1000})
        for source in ({}, {"epochs": 2, "shuffle_window": 6}, {"epochs": 2, "shuffle_window": 6})
    ]
    for world, chaos in zip(worlds, (0.0, 0.0, 0.02), strict=True):
        world.drive(chaos)
        assert world.state.run_state is RunState.COMPLETED, world.error
    assert ops_of(worlds[1]) == ops_of(worlds[2])
    demonstrated = [learned(world) for world in worlds[:2]]
    assert demonstrated[0] != demonstrated[1]
    assert max(Counter(demonstrated[1]).values()) == 1


def learned(world: World) -> list[int]:
    """The marks of what SFT learned from."""
    bodies = [world.applied[number].body for number in sorted(world.applied)]
    return [
        int(body.batch.ids_N[int(start)])
        for body in bodies
        if isinstance(body, ForwardBackward) and body.loss.kind == "cross_entropy"
        for start in [0, *body.batch.lengths_B.cumsum()[:-1]]
    ]


def numbered(number: int, n_chars: int = 0) -> Group:
    said = (ChatMessage(role="user", content="x" * n_chars),)
    group = group_of(make_episode_ended(transcript=make_transcript(messages=said)))
    group.id = GroupId(f"group_{number:03}")
    return group


def drawn(window: Window, groups: Sequence[Group]) -> list[str]:
    found = [group for each in groups for group in window.put(each)]
    return [group.id for group in (*found, *window.empty())]


def test_a_window_draws_from_as_many_as_it_holds() -> None:
    groups = [numbered(number) for number in range(200)]
    in_order: list[str] = [group.id for group in groups]
    assert drawn(Window(1, 1), groups) == in_order
    order = drawn(Window(1, 10), groups)
    assert order != in_order and sorted(order) == in_order
    ahead = [in_order.index(name) - place for place, name in enumerate(order)]
    assert max(ahead) == 9, "no group comes before those that must fill the window have come"
    assert drawn(Window(1, 10), groups) == order != drawn(Window(2, 10), groups)


def test_every_group_of_a_window_may_be_drawn_and_each_as_often() -> None:
    first = Counter(
        drawn(Window(seed, 4), [numbered(n) for n in range(4)])[0] for seed in range(400)
    )
    assert set(first) == {f"group_{n:03}" for n in range(4)} and min(first.values()) > 60


def test_what_was_not_drawn_goes_on_as_before() -> None:
    groups = [numbered(number) for number in range(40)]
    order = drawn(Window(3, 7), groups)
    for n_consumed in range(40):
        left = [group for group in groups if group.id not in order[:n_consumed]]
        assert drawn(Window(3, 7), left) == order[n_consumed:]


def test_a_window_holds_no_more_than_so_many_bytes() -> None:
    window = Window(1, 1000)
    third = MOST_BYTES // 3
    assert window.put(numbered(0, third)) == window.put(numbered(1, third)) == []
    assert len(window.put(numbered(2, third))) == 1
    assert len(window.held) == 2
    sizes = [third, 1, 1, third, 2 * third, 1, MOST_BYTES, 1, 1, third]
    groups = [numbered(n, size) for n, size in enumerate(sizes)]
    order = drawn(Window(1, 1000), groups)
    for n_consumed in range(len(groups)):
        left = [group for group in groups if group.id not in order[:n_consumed]]
        assert drawn(Window(1, 1000), left) == order[n_consumed:]


def test_rows_of_an_epoch_are_told_from_those_of_another() -> None:
    world = replayed(played(7), epochs=2)
    with Session(world.engine) as session:
        ids = session.exec(select(GroupRow.id).where(col(GroupRow.run_id) == world.run)).all()
    epochs = Counter(recorded_id(row_id)[1] for row_id in ids)
    assert set(epochs) == {0, 1}
    assert recorded_id("group_1@run_2+13") == (GroupId("group_1"), 13)
    assert recorded_id("a@b+c@run_2+13") == (GroupId("a@b+c"), 13)
    assert Reading(1, 0) > Reading(0, 5)


@pytest.mark.parametrize("keys", [{"epochs": 0}, {"shuffle_window": 1}, {"shuffle_window": 10_001}])
def test_what_would_have_no_effect_or_no_room_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RecordedSource.model_validate({"run": "run_other", **keys})
