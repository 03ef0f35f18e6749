"""The parts of a step's time add up, whatever overlaps with it."""

import random

import pytest
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.learning import step_times
from warren_gateway.coordinator.learning.batch_metrics import TRAINER_TAGS
from warren_gateway.coordinator.state.learning import PendingStep
from warren_schemas.events import Phase
from warren_schemas.metrics.registry import find
from warren_schemas.training import OpDone, Policy

PARTS = ("time/wait_s", "time/update_s", "time/publish_s", "time/checkpoint_s")


@pytest.mark.parametrize(
    ("batched_s", "parts"),
    [(104.0, (4.0, 3.0, 1.0, 2.0)), (95.0, (0.0, 7.0, 1.0, 2.0))],
    ids=["the trainer waited", "the batch was there before the last step was published"],
)
def test_the_parts_of_a_step_add_up(batched_s: float, parts: tuple[float, ...]) -> None:
    world = World(config(), random.Random(0))
    world.state.learning.batches.rate_mark = (100.0, 0, 0)
    pending = _pending(batched_s)
    step_times.note(pending, OpDone(version=1, metrics={"loss:sum": 1.0}), 105.0)
    step_times.note(pending, OpDone(version=1, metrics={"grad_norm": 1.0}), 107.0)
    policy = Policy(version=1, url="file:///v1", size_bytes=1)
    step_times.note(pending, OpDone(version=1, policy=policy), 108.0)
    world.state.now_s = 110.0
    told = step_times.times(world.state, pending)
    assert tuple(told[tag] for tag in PARTS) == parts
    assert told["time/step_s"] == sum(parts) == 10.0


def test_an_evaluation_is_a_part_of_its_own_and_no_training() -> None:
    world = World(config(), random.Random(0))
    world.state.learning.batches.rate_mark = (100.0, 0, 0)
    pending = _pending(104.0)
    pending.first_evaluation_op = 3
    step_times.note(pending, OpDone(version=1, metrics={"grad_norm": 1.0}, duration_s=2.0), 107.0)
    loss = OpDone(version=1, metrics={"loss:sum": 1.0}, duration_s=9.0)
    step_times.note(pending, loss, 109.0, is_evaluation=True)
    world.state.now_s = 112.0
    told = step_times.times(world.state, pending)
    found = [told[tag] for tag in (*PARTS[:3], "time/evaluation_s", PARTS[3])]
    assert found == [4.0, 3.0, 0.0, 2.0, 3.0]
    assert (told["time/step_s"], told["time/training_s"]) == (sum(found), 2.0)


def test_the_trainer_s_own_time_is_what_it_says_and_the_rest_is_waiting_for_it() -> None:
    """Ops of several batches add up; those that publish and save are no training."""
    world = World(config(), random.Random(0))
    world.state.learning.batches.rate_mark = (100.0, 0, 0)
    pending = _pending(95.0)
    step_times.note(pending, OpDone(version=1, metrics={"loss:sum": 1.0}, duration_s=1.0), 104.0)
    step_times.note(pending, OpDone(version=1, metrics={"loss:sum": 1.0}, duration_s=2.0), 105.0)
    step_times.note(pending, OpDone(version=1, metrics={"grad_norm": 1.0}, duration_s=0.5), 107.0)
    policy = Policy(version=1, url="file:///v1", size_bytes=1)
    step_times.note(pending, OpDone(version=1, policy=policy, duration_s=9.0), 108.0)
    step_times.note(pending, OpDone(version=1, checkpoint_url="file:///c", duration_s=9.0), 109.0)
    world.state.now_s = 110.0
    told = step_times.times(world.state, pending)
    assert told["time/training_s"] == 3.5
    assert told["time/trainer_wait_s"] == 12.0 - 3.5


def test_a_step_that_trained_on_nothing_is_all_waiting() -> None:
    world = World(config(), random.Random(0))
    world.state.learning.batches.rate_mark, world.state.now_s = (100.0, 0, 0), 103.0
    told = step_times.times(world.state, _pending(103.0))
    assert told == {tag: 3.0 * (n < 2) for n, tag in enumerate(["time/step_s", *PARTS[:3]])}


def test_after_a_takeover_the_first_step_has_no_time() -> None:
    world = World(config(), random.Random(0))
    assert step_times.times(world.state, _pending(1.0)) == {}


def test_all_that_the_trainer_reports_is_explained() -> None:
    assert [tag for tag in TRAINER_TAGS.values() if find(tag) is None] == []


def _pending(batched_s: float) -> PendingStep:
    return PendingStep(
        step=1,
        phase=Phase.TRAINING,
        version=1,
        n_updates=1,
        first_op=1,
        last_op=3,
        metrics={},
        batched_s=batched_s,
    )
