"""What is likely wrong with a run is told once it has lasted, with its cause and what to try; it may end the run."""

import math
import random

import pytest
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.alarms import ALARMS, WINDOW, Known, note_step
from warren_schemas.config import AlarmName
from warren_schemas.episode import Completed, EpisodePurpose, Failed, FailureKind, StopReason
from warren_schemas.events import RunEvent, RunState, StateChanged, StepCompleted, WarningRaised

SOUND = {
    "reward/mean": 0.5, "reward/min": 0.0, "reward/max": 1.0, "seq/truncated_frac": 0.1,
    "policy/entropy": 1.0, "seq/single_candidate_frac": 0.7, "policy/kl_k3": 0.001, "policy/ratio_max": 2.0, "policy/grad_norm": 1.0,
    "stale/lag_max": 0.0, "time/trainer_wait_s": 1.0, "env/unreadable": 0.1, "env/illegal": 2.5, "env/answered": 0.9,
    "episode/environment_failed_frac": 0.01,
}  # fmt: skip
VOCABULARY = 64
RECENT = {"policy/grad_norm": [1.0] * WINDOW, "reward/mean": [0.5]}
WRONG: dict[AlarmName, list[dict[str, float]]] = {
    AlarmName.ENTROPY_HIGH: [{"policy/entropy": 0.96 * math.log(VOCABULARY)}],
    AlarmName.ENTROPY_LOW: [{"policy/entropy": 0.001}],
    AlarmName.SINGLE_CANDIDATE: [{"seq/single_candidate_frac": 0.97}],
    AlarmName.REWARD_CONSTANT: [{"reward/min": 0.5, "reward/max": 0.5}],
    AlarmName.NOBODY_FINISHES: [{"seq/truncated_frac": 1.0}],
    AlarmName.FORMAT: [
        {"env/unreadable": 0.6},
        {"env/math/answered": 0.2},
        {"env/a/unreadable": 0.6, "env/b/unreadable": 0.1},
    ],
    AlarmName.DISAGREEMENT: [{"policy/kl_k3": 0.05}],
    AlarmName.EXPLODING: [{"policy/grad_norm": 200.0}, {"policy/ratio_max": 2e4}],
    AlarmName.GATE_CLOSED: [{"time/trainer_wait_s": 90.0}],
    AlarmName.ENVIRONMENT_FAILS: [{"episode/environment_failed_frac": 0.5}],
}


def known(**changes: float) -> Known:
    return Known({**SOUND, **changes}, RECENT, VOCABULARY)


def raised(world: World) -> list[AlarmName]:
    bodies = [event.body for event in world.events]
    return [body.alarm for body in bodies if isinstance(body, WarningRaised) and body.alarm]


def test_each_alarm_is_raised_by_what_deserves_it_and_by_nothing_else() -> None:
    assert [alarm.name for alarm in ALARMS if alarm.holds(known())] == []
    assert {alarm.name for alarm in ALARMS} == set(WRONG) == set(AlarmName) - {"zero_variance"}
    for name, figures in WRONG.items():
        for figure in figures:
            assert [a.name for a in ALARMS if a.holds(known(**figure))] == [name], figure


def test_a_step_that_reports_nothing_raises_nothing() -> None:
    assert [alarm.name for alarm in ALARMS if alarm.holds(Known({}, {}, 0))] == []


def test_it_is_told_once_it_has_lasted_then_after_twice_as_many_and_its_curve_says_when() -> None:
    world = World(config(), random.Random(0))
    curve: list[float] = []
    for step in range(1, 20):
        wrong = {"seq/truncated_frac": 1.0 if step != 18 else 0.0}
        curve.append(note_step(world.state, {**SOUND, **wrong})["alarm/nobody_finishes"])
    messages = [
        item.body.message
        for items in world.state.change.posts.values()
        for item in items
        if isinstance(item, RunEvent) and isinstance(item.body, WarningRaised)
    ]
    assert [message.split(" for ")[1].split()[0] for message in messages] == ["4", "8", "16"]
    assert "raise max_turns" in messages[0]
    assert curve == [0.0] * 3 + [1.0] * 14 + [0.0] * 2


class BrokenWorld(World):
    """Episodes of one kind alone."""

    outcomes: tuple[Completed | Failed, ...] = ()

    def _outcome(self, purpose: EpisodePurpose) -> Completed | Failed:
        return self.rng.choice(self.outcomes)


FAILED = Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason="it broke")
CUT = (
    Completed(reward=0.0, stop=StopReason.MAX_TURNS),
    Completed(reward=1.0, stop=StopReason.MAX_TURNS),
)


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        (AlarmName.NOBODY_FINISHES, CUT),
        (AlarmName.REWARD_CONSTANT, (Completed(reward=0.5),)),
        (AlarmName.ZERO_VARIANCE, (Completed(reward=0.5),)),
        (AlarmName.FORMAT, (Completed(reward=0.0, metrics={"unreadable": 1.0}), Completed(reward=1.0, metrics={"unreadable": 1.0}))),
        (AlarmName.ENVIRONMENT_FAILS, (FAILED, FAILED, Completed(reward=0.0), Completed(reward=1.0))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chaos", [0.0, 0.02], ids=["calm", "takeovers"])
def test_a_run_that_deserves_it_raises_it_and_ends_by_it_where_that_is_wanted(
    name: AlarmName, outcomes: tuple[Completed | Failed, ...], chaos: float
) -> None:
    limits = {"steps": 14, "episode_s": 50, "episode_attempts": 9, "stop_on": [name]}
    world = BrokenWorld(config(limits=limits), random.Random(1))
    world.outcomes = outcomes

    state = world.drive(chaos)

    assert name in raised(world)
    assert state.run_state is RunState.FAILED
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.reason.startswith(f"limits.stop_on has {name}: ")


def test_a_sound_run_raises_none() -> None:
    world = BrokenWorld(config(limits={"steps": 14, "episode_s": 50}), random.Random(1))
    world.outcomes = (Completed(reward=0.0), Completed(reward=1.0))

    assert world.drive(0.0).run_state is RunState.COMPLETED

    assert raised(world) == []
    bodies = [event.body for event in world.events]
    steps = [body.metrics for body in bodies if isinstance(body, StepCompleted)]
    assert not any(tag.startswith("alarm/") for step in steps for tag in step)
