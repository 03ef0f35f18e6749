"""What a run counts: means over those that report, failures by kind, groups that were dropped by reason."""

import random
from collections import Counter

from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.learning.batch_metrics import batch_metrics
from warren_gateway.coordinator.learning.credit import n_without_signal
from warren_gateway.coordinator.rollouts import failure_limits
from warren_gateway.coordinator.rollouts.by_environment import (
    add,
    environment_sums,
    environment_tags,
    total_tags,
)
from warren_gateway.coordinator.state.group_parts import PlayedTask
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.position import Position
from warren_schemas.episode import (
    Completed,
    EpisodePurpose,
    Failed,
    FailureKind,
    StopReason,
)
from warren_schemas.events import StepCompleted
from warren_schemas.ids import new_group_id

KINDS = (FailureKind.ENVIRONMENT_ERROR, FailureKind.SAMPLER_ERROR, FailureKind.LOST)


class VariedWorld(World):
    """Episodes fail in several ways, end for several reasons, and one in three reports a metric."""

    def _outcome(self, purpose: EpisodePurpose) -> Completed | Failed:
        if self.rng.random() < self.failure_rate:
            return Failed(kind=self.rng.choice(KINDS), reason="it broke")
        metrics = {"exact": 1.0} if self.rng.random() < 0.33 else {}
        stop = self.rng.choice(list(StopReason))
        return Completed(reward=self.rng.choice(self.rewards), stop=stop, metrics=metrics)


def steps(world: World) -> list[dict[str, float]]:
    return [e.body.metrics for e in world.events if isinstance(e.body, StepCompleted)]


def group_of(world: World, *outcomes: Completed) -> Group:
    """One whose members ended so."""
    world.decide()
    while not world.stream:
        world.move()
    group = Group(
        id=new_group_id(), number=1, purpose=EpisodePurpose.TRAIN, environment=0, task=PlayedTask(0),
        min_version=0, deadline_s=1.0, attempts=[1] * len(outcomes),
    )  # fmt: skip
    for member, outcome in enumerate(outcomes):
        spec = world.stream[0].spec.model_copy(update={"member": member})
        ended = world.stream[0].model_copy(update={"spec": spec, "outcome": outcome})
        group.take(ended, Position(member), max_attempts=1)
    return group


def test_a_metric_that_some_report_is_the_mean_over_these_and_says_of_how_many() -> None:
    world = World(config(), random.Random(0))
    outcomes = (
        Completed(reward=0.0, metrics={"exact": 1.0, "moves": 4.0}),
        Completed(reward=0.0, metrics={"moves": 2.0}),
        Completed(reward=1.0),
    )
    sums = environment_sums([group_of(world, *outcomes)])
    tags = environment_tags(world.config.environments, sums)
    assert tags == {
        "env/exact": 1.0, "env_episodes/exact": 1.0, "env/moves": 3.0, "env_episodes/moves": 2.0,
    }  # fmt: skip
    totals = {"guess": dict(sums["guess"])}
    add(totals, sums)
    of_run = total_tags("guess", totals["guess"])
    assert of_run["env_total/guess/moves"] == 3.0
    assert of_run["env_total_episodes/guess/moves"] == 4.0
    assert of_run["env_total/guess/episodes"] == 6.0
    assert of_run["env_total/guess/truncated"] == 0.0


def test_every_failed_attempt_is_counted_once_by_kind_whoever_drives_the_run() -> None:
    """Gateways take over from one another, and nothing is counted twice or lost."""
    limits = {"steps": 4, "episode_s": 1e6, "episode_attempts": 3}
    world = VariedWorld(config(limits=limits), random.Random(3), failure_rate=0.3)
    world.decide()
    while not world.state.is_over:
        if world.rng.random() < 0.05:
            world.load()
        world.move()
    failed = {
        (item.envelope.episode, item.envelope.attempt): item.outcome.kind
        for item in world.stream
        if isinstance(item.outcome, Failed)
    }
    counted = failure_limits.by_kind(world.state.rollouts)
    # What had ended by the end of the run and was not read counts for nothing.
    late = Counter(kind.value for kind in failed.values()) - Counter(counted)
    assert set(counted) == set(KINDS) and late.total() <= world.config.algorithm.group_size
    last = steps(world)[-1]
    by_tag = {t: n for t, n in last.items() if t.startswith("episode/failed_total/")}
    assert sum(by_tag.values()) == last["episode/failed_total"] > 0


def test_groups_are_dropped_for_a_reason() -> None:
    limits = {"steps": 8, "episode_s": 1e6, "episode_attempts": 1, "failed_groups": 1000}
    world = VariedWorld(
        config(limits=limits), random.Random(3), failure_rate=0.2, rewards=(0.0, 0.0, 0.0, 1.0)
    )
    world.drive(0.0)
    dropped = world.state.rollouts.dropped_groups
    last = steps(world)[-1]
    assert dropped["no_signal"] == sum(step["group/all_same"] for step in steps(world)) > 0
    assert last["group/dropped_total"] <= sum(dropped.values())
    assert set(dropped) <= {"no_signal", "failed", "stale"}


def test_rewards_are_the_same_where_credit_sees_no_difference() -> None:
    world = World(config(), random.Random(0))
    rounded = group_of(world, Completed(reward=0.1 + 0.2), Completed(reward=0.3))
    apart = group_of(world, Completed(reward=0.3), Completed(reward=0.31))
    metrics = batch_metrics([rounded, apart])
    n_level = n_without_signal([rounded, apart], world.config.algorithm)
    assert metrics["group/all_same"] == n_level == 1
    assert metrics["group/all_same_frac"] == 0.5


def test_groups_that_lose_too_many_members_are_dropped_as_failed() -> None:
    algorithm = {"group_size": 4, "groups_per_step": 2, "groups": {"kind": "all"}}
    limits = {"steps": 3, "episode_s": 1e6, "episode_attempts": 1, "failed_groups": 1000}
    world = VariedWorld(
        config(limits=limits, algorithm=algorithm), random.Random(3), failure_rate=0.1
    )
    world.drive(0.0)
    assert world.state.rollouts.dropped_groups["failed"] > 0


def test_why_episodes_ended_adds_up_to_all_of_them() -> None:
    world = VariedWorld(config(), random.Random(1))
    world.drive(0.0)
    for step in steps(world):
        shares = {tag: n for tag, n in step.items() if tag.startswith("seq/stop_frac/")}
        assert len(shares) == len(StopReason) and sum(shares.values()) == 1.0
        assert step["seq/truncated_frac"] == 1.0 - shares["seq/stop_frac/done"]
