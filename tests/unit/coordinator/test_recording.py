"""Replays through the coordinator's logic: the same stream gives the same ops, whatever happens.

A world plays a run, with failures, duplicates and lost episodes; other worlds replay what it wrote.
"""

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session, select
from tests.unit.coordinator.world import RUN, ReplayWorld, World, config

from warren_broker.topology import trajectories
from warren_gateway.coordinator.replaying.counted import counted_places
from warren_gateway.coordinator.replaying.files import Uploaded
from warren_gateway.coordinator.replaying.recording import MOST_OPEN_BYTES, Recording, Terms
from warren_gateway.coordinator.state.recorded import Ending, Message
from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import RunState, StateChanged
from warren_schemas.ids import GroupId
from warren_schemas.training import ForwardBackward, OptimStep

SFT = {"steps": 3, "episodes_per_step": 4}


@cache
def played(seed: int, *, failure_rate: float = 0.1, chaos: float = 0.01) -> World:
    """A run that went well enough to record something."""
    world = World(config(sft=SFT), random.Random(seed), failure_rate=failure_rate)
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED
    return world


def replayed(
    recorded: World, seed: int, *, chaos: float = 0.0, **changes: dict[str, Any]
) -> ReplayWorld:
    world = ReplayWorld.of(recorded, random.Random(seed), **changes)
    world.drive(chaos)
    return world


def ops_of(world: World) -> list[str]:
    """But for the notes of checkpoints, which tell where a live run stood."""
    bodies = [world.applied[number].body for number in sorted(world.applied)]
    return [body.model_dump_json(exclude={"note", "keep"}) for body in bodies]


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_recording_gives_the_same_ops_however_often_it_is_replayed(seed: int) -> None:
    recorded = played(seed)

    calm = replayed(recorded, seed + 1)
    rough = replayed(recorded, seed + 2, chaos=0.01)

    assert calm.state.run_state is rough.state.run_state is RunState.COMPLETED
    assert ops_of(calm) == ops_of(rough)
    assert set(rough.trained_episodes.values()) <= {1}
    assert calm.episodes == [], "a replay plays nothing"


def test_a_replay_with_the_same_config_repeats_the_run() -> None:
    """Where the run dropped nothing as stale, the replay's ops are its ops."""
    recorded = played(7, failure_rate=0.0, chaos=0.0)
    assert "stale" not in recorded.state.rollouts.dropped_groups

    again = replayed(recorded, 8)

    assert ops_of(again) == ops_of(recorded)
    assert again.state.rollouts.n_episodes == recorded.state.rollouts.n_episodes


def test_a_replay_keeps_the_sizes_of_an_environment_that_is_listed_twice() -> None:
    twice = [{"name": "guess", "group_size": 2}, {"name": "guess", "group_size": 5}]
    algorithm = {"group_size": 4, "groups_per_step": 2, "max_staleness": 8}
    recorded = World(config(environments=twice, algorithm=algorithm), random.Random(3))
    recorded.drive(0.0)
    assert "stale" not in recorded.state.rollouts.dropped_groups

    again = replayed(recorded, 4)

    assert ops_of(again) == ops_of(recorded)
    with Session(again.engine) as session:
        rows = list(session.exec(select(GroupRow)))
    assert {(row.environment, row.n_members) for row in rows} == {(0, 2), (1, 5)}


def test_a_replay_with_another_tokenizer_is_refused_before_its_first_step() -> None:
    replay = ReplayWorld.of(played(5), random.Random(6))
    replay.trainers_tokenizer = "b"
    replay.drive(0.0)
    assert replay.state.run_state is RunState.FAILED
    assert "made by another tokenizer (digest a)" in replay.error
    assert f"replay {RUN} with a model.base that has its tokenizer" in replay.error
    assert not replay.applied


def test_a_run_ends_whose_samplers_have_another_tokenizer_than_its_trainer() -> None:
    world = World(config(), random.Random(5), trainers_tokenizer="b")
    world.drive(0.0)
    assert "give samplers and trainers of tiny the same folder" in world.error
    assert not world.applied


@pytest.mark.slow
def test_a_replay_has_rows_of_its_own_and_leaves_the_runs_alone() -> None:
    recorded = played(7)
    with Session(recorded.engine) as session:
        before = {r.id: r.outcomes for r in session.exec(select(GroupRow))}

    replay = replayed(recorded, 8)

    with Session(replay.engine) as session:
        rows = list(session.exec(select(GroupRow)))
    ours = [row for row in rows if row.run_id != RUN]
    assert {r.id: r.outcomes for r in rows if r.run_id == RUN} == before
    fates = [o["fate"] for row in ours for o in row.outcomes or []]
    n_episodes = replay.state.rollouts.n_episodes
    assert len([r for row in ours for r in row.outcomes or [] if "reward" in r]) >= n_episodes
    assert "trained" in fates


def test_a_replay_with_another_loss_trains_on_the_same_tokens() -> None:
    recorded = played(3)

    replay = replayed(recorded, 4, algorithm={"loss": {"kind": "importance_sampling"}})

    bodies = [op.body for op in replay.applied.values()]
    losses = {body.loss.kind for body in bodies if isinstance(body, ForwardBackward)}
    assert losses == {"importance_sampling", "cross_entropy"}


def test_a_replay_follows_a_run_that_still_goes_on() -> None:
    recorded = played(5)
    whole = replayed(recorded, 6)
    behind = ReplayWorld.of(recorded, random.Random(6))
    behind.is_recorder_going, behind.n_visible = True, 0

    while not behind.state.is_over:
        behind.n_visible = min(behind.n_visible + 3, len(behind.recorded))
        behind.is_recorder_going = behind.n_visible < len(behind.recorded)
        for _ in range(20):
            behind.move()

    assert ops_of(behind) == ops_of(whole)


def test_a_replay_ends_when_the_recording_does() -> None:
    recorded = played(5)
    more = replayed(recorded, 6, limits={"steps": 1000})

    assert more.state.run_state is RunState.COMPLETED
    n_steps = sum(isinstance(op.body, OptimStep) for op in more.applied.values())
    assert SFT["steps"] < n_steps < 1000


def test_a_recording_from_its_end_on_has_nothing_to_train_on() -> None:
    recorded = played(5)
    source = {"kind": "recorded", "run": RUN, "from_offset": 64 * len(recorded.stream)}

    replay = replayed(recorded, 6, source=source)

    last = replay.events[-1].body
    assert isinstance(last, StateChanged) and last.state is RunState.FAILED
    assert last.reason == (
        "the recording holds no 2 complete groups from where it was to be replayed on"
    )


def test_a_recording_that_is_gone_fails_the_replay_with_a_reason() -> None:
    recorded = played(5)
    replay = ReplayWorld.of(recorded, random.Random(6))
    replay.n_visible = 0
    for _ in range(200):
        replay.now_s += 1.0
        replay.move()

    last = replay.events[-1].body
    assert isinstance(last, StateChanged) and last.state is RunState.FAILED
    assert last.reason is not None and "can't be read from offset 0 on" in last.reason


def test_a_replay_says_that_the_run_which_it_follows_stands_still() -> None:
    replay = ReplayWorld.of(played(5), random.Random(6))
    replay.is_recorder_going, replay.n_visible = True, 0
    for _ in range(200):
        replay.now_s += 1.0
        replay.move()
    assert not replay.state.is_over
    assert "which this replay follows, has not ended" in (replay.state.waiting.reason or "")
    replay.n_visible = 3
    while replay.state.waiting.reason is not None:
        replay.move()


@pytest.mark.parametrize("start", [0, 65, 700])
def test_a_recording_starts_where_it_is_told_to(start: int) -> None:
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    recording = Recording(RUN, trajectories(RUN), terms(recorded.config), Position.of(start))
    places: list[int] = []
    for offset, item in enumerate(recorded.stream):
        groups, _ = recording.take(Message.of([item], offset, {}))
        places += [group.first_offset or 0 for group in groups]
    assert min(places) == -(-start // 64)


def test_groups_that_never_end_are_given_up_once_there_are_too_many() -> None:
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    training = [i for i in recorded.stream if i.spec.purpose is EpisodePurpose.TRAIN]
    first = next(i for i in training if i.spec.member == 0)
    limits = terms(recorded.config)
    recording = Recording(RUN, trajectories(RUN), limits, Position(0))
    for number in range(limits.most_open + 5):
        spec = first.spec.model_copy(update={"group": f"group_{number}"})
        one = first.model_copy(update={"spec": spec})
        _, given_up = recording.take(Message.of([one], number, {}))
        assert [group.id for group in given_up] == (
            [f"group_{number - limits.most_open}"] if number >= limits.most_open else []
        )
    assert len(recording.open) == limits.most_open


def test_an_ending_that_no_group_has_room_for_begins_none() -> None:
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    first = next(i for i in recorded.stream if i.spec.purpose is EpisodePurpose.DEMONSTRATE)
    second = first.model_copy(update={"spec": first.spec.model_copy(update={"member": 1})})
    recording = Recording(None, Uploaded("me/monday", "train"), None, Position(0))
    recording.take(Message(0, (Ending(0, second, True, "trained", 8),)))
    assert not recording.open
    [group], _ = recording.take(Message(1, (Ending(0, first, True, "trained", 8),)))
    assert group.first_offset == 1


def test_the_oldest_groups_of_a_data_set_are_given_up_once_they_take_too_much() -> None:
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    first = next(i for i in recorded.stream if i.spec.purpose is EpisodePurpose.TRAIN)
    small, large = 1, MOST_OPEN_BYTES // 3 + 1
    recording = Recording(None, Uploaded("me/monday", "train"), None, Position(0))

    def take(size_bytes: int, group: str, member: int, offset: int) -> list[list[str]]:
        changes = {"group": GroupId(group), "member": member}
        one = first.model_copy(update={"spec": first.spec.model_copy(update=changes)})
        found = recording.take(Message(offset, (Ending(0, one, True, "trained", 2, size_bytes),)))
        return [[group.id for group in groups] for groups in found]

    assert take(small, "group_0", 0, 0) == take(large, "group_1", 0, 1) == [[], []]
    assert take(large, "group_2", 0, 2) == [[], []]
    assert take(small, "group_2", 1, 3) == [["group_2"], []], "what is complete counts no more"
    assert take(large, "group_3", 0, 4) == [[], []]
    assert take(large, "group_4", 0, 5) == [[], ["group_0", "group_1"]]
    assert take(small, "group_1", 1, 6) == [[], []], "it was given up"
    assert take(small, "group_3", 1, 7) == [["group_3"], []]


def terms(config: TrainConfig) -> Terms:
    return Terms.of(config)


def test_the_attempt_that_was_used_is_taken_and_not_a_late_one_before_it() -> None:
    """An attempt that was given up ended after all, before the one that the run counted."""
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    late = next(i for i in recorded.stream if i.spec.purpose is EpisodePurpose.TRAIN)
    used = late.model_copy(update={"envelope": late.envelope.model_copy(update={"attempt": 2})})
    recording = Recording(RUN, trajectories(RUN), terms(recorded.config), Position(0))
    recording.take(Message.of([late, used], 0, {0: None, 1: "trained"}))
    [group] = recording.open.values()
    assert group.ended[late.spec.member].envelope.attempt == 2
    assert group.counted[late.spec.member] == Position(0, 1)


def test_what_counted_of_a_recording_is_what_the_run_that_recorded_it_counted() -> None:
    recorded = played(9, failure_rate=0.0, chaos=0.0)
    at, item = next(
        (n, i) for n, i in enumerate(recorded.stream) if i.spec.purpose is EpisodePurpose.TRAIN
    )
    with Session(recorded.engine) as session:
        assert counted_places(session, RUN, [item], at) == {0: "trained"}
        assert counted_places(session, RUN, [item, item], at) == {0: "trained", 1: None}
        assert counted_places(session, RUN, [item], at + 1) == {0: None}
        strange = item.model_copy(
            update={"spec": item.spec.model_copy(update={"group": "group_x"})}
        )
        assert counted_places(session, RUN, [strange], at) == {}
        run = session.get_one(Run, RUN)
        run.state, run.stream_offset = RunState.RUNNING, at
        assert counted_places(session, RUN, [item], at) is None
        run.stream_offset = at + 1
        assert counted_places(session, RUN, [item], at) == {0: "trained"}
        session.rollback()
