"""Several environments in one run, each with settings of its own."""

import random
from collections import Counter

from tests.unit.coordinator.world import World, config

from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodePurpose, EpisodeSpec
from warren_schemas.events import EvaluationCompleted, RunState, StepCompleted
from warren_schemas.training import ForwardBackward

TWO = {
    "environments": [
        {
            "name": "guess",
            "group_size": 3,
            "weight": 3,
            "sampling": {"temperature": 0.5, "top_p": 0.9, "thinking": False},
            "splits": {"train": {"shuffle": False, "num_samples": 7}},
            "max_failed_members": 0,
            "secrets": ["GUESS_KEY"],
            "reward_reduction": "max",
            "nonterminal_reward": -1,
            "tool_format": "xml",
        },
        {"name": "other", "episode_s": 7.0, "episode_attempts": 1, "evaluation_split": "test"},
    ],
    "secrets": ["COMMON_KEY"],
    "sampling": {"top_k": 5},
}


def begin(world: World) -> World:
    """Go on until the first episodes are out."""
    while not world.episodes:
        world.decide()
        world.read_mail()
    return world


def started(world: World) -> dict[str, EpisodeSpec]:
    """The first spec of each environment."""
    begin(world)
    return {item.spec.environment: item.spec for item in reversed(world.episodes)}


def test_row_50_each_environment_has_its_own_settings() -> None:
    """Parity rows 50 to 56: what an environment's settings say is in its episodes."""
    specs = started(World(config(**TWO), random.Random(0)))
    guess, other = specs["guess"], specs["other"]
    assert guess.sampling == Sampling(temperature=0.5, top_p=0.9, top_k=5, thinking=False)
    assert other.sampling == Sampling(top_k=5)
    assert (guess.task.shuffle, guess.task.num_samples) == (False, 7)
    assert (other.task.shuffle, other.task.num_samples) == (True, None)
    assert guess.secrets == ("COMMON_KEY", "GUESS_KEY")
    assert other.secrets == ("COMMON_KEY",)
    assert guess.reward_rules.nonterminal == -1
    assert guess.tool_format == "xml"


def test_row_52_groups_have_the_size_of_their_environment() -> None:
    world = begin(World(config(**TWO), random.Random(0)))
    sizes = {g.environment: g.n_members for g in world.state.rollouts.groups.values()}
    assert sizes == {0: 3, 1: 4}
    n_groups = Counter(g.environment for g in world.state.rollouts.groups.values())
    assert n_groups == {0: 3, 1: 1}


def test_row_52_a_group_with_too_many_failed_members_is_dropped() -> None:
    """`guess` allows none: every group of it that is trained on is whole."""
    changes = {**TWO, "limits": {"steps": 6, "episode_s": 50, "failed_groups": 10_000}}
    world = World(config(**changes), random.Random(3), failure_rate=0.5)
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED
    marks = {int(item.transcript.tokens.ids_T[0]): item.spec for item in world.stream}
    members = Counter(
        marks[mark].group for mark in world.trained_episodes if marks[mark].environment == "guess"
    )
    assert set(members.values()) == {3}


def test_row_53_data_of_different_temperatures_lie_in_different_ops() -> None:
    """The trainer must divide the logits by what they were sampled with."""
    world = World(config(**TWO), random.Random(1))
    world.drive(0.0)
    temperatures = {item.spec.environment: item.spec.sampling.temperature for item in world.stream}
    marks = {int(item.transcript.tokens.ids_T[0]): item.spec.environment for item in world.stream}
    seen: set[float] = set()
    for op in world.applied.values():
        if isinstance(op.body, ForwardBackward):
            batch, start = op.body.batch, 0
            for length in batch.lengths_B:
                mark = int(batch.ids_N[start])
                assert op.body.temperature == temperatures[marks[mark]]
                start += int(length)
            seen.add(op.body.temperature)
    assert seen == {0.5, 1.0}


def test_row_55_attempts_and_timeouts_are_those_of_the_environment() -> None:
    world = begin(World(config(**TWO), random.Random(0)))
    deadlines = {e.spec.environment: e.envelope.deadline_s for e in world.episodes}
    assert deadlines == {"guess": world.now_s + 50, "other": world.now_s + 7}
    world.episodes.clear()
    world.now_s += 60
    world.decide()
    again = {e.spec.environment for e in world.episodes if e.envelope.attempt == 2}
    assert again == {"guess"}


def test_row_55_no_more_episodes_are_in_flight_than_allowed() -> None:
    environments = [{"name": "guess", "max_in_flight": 9}]
    world = begin(World(config(environments=environments), random.Random(2)))
    assert len(world.episodes) == 8
    while not world.state.is_over:
        world.finish_episode()
        world.train()
        world.read_mail()
        open_members = sum(len(g.missing) for g in world.state.rollouts.groups.values())
        assert open_members <= 9
    assert world.state.run_state is RunState.COMPLETED


def test_a_group_is_admitted_even_where_it_is_larger_than_the_limit() -> None:
    environments = [{"name": "guess", "max_in_flight": 1}]
    state = World(config(environments=environments), random.Random(2)).drive(0.02)
    assert state.run_state is RunState.COMPLETED


def test_an_evaluation_keeps_its_own_temperature() -> None:
    changes = {**TWO, "evaluation": {"episodes": 8, "after": False}}
    world = begin(World(config(**changes), random.Random(0)))
    purposes = {item.spec.purpose for item in world.episodes}
    assert purposes == {EpisodePurpose.EVALUATE}
    assert {item.spec.sampling.temperature for item in world.episodes} == {0.0}
    assert {item.spec.task.split for item in world.episodes} == {"train", "test"}


def test_row_39_statistics_of_each_environment_by_step_and_in_total() -> None:
    """They survive coordinators that start over in the middle."""
    world = World(config(**TWO), random.Random(4))
    world.drive(0.02)
    steps = [e.body.metrics for e in world.events if isinstance(e.body, StepCompleted)]
    for name in ("guess", "other"):
        assert any(f"env/{name}/exact" in step for step in steps)
    last = steps[-1]
    marks = {int(item.transcript.tokens.ids_T[0]): item for item in world.stream}
    assert last["env_total/guess/turns"] == 1.0
    assert last["env_total/guess/exact"] == 1.0
    n_episodes = sum(last[f"env_total/{name}/episodes"] for name in ("guess", "other"))
    assert n_episodes >= len(world.trained_episodes)
    trained = [marks[mark].outcome for mark in world.trained_episodes]
    assert trained
    assert -1.0 <= last["env_total/guess/reward"] <= 1.0


def test_row_39_an_evaluation_tells_its_environments_apart() -> None:
    world = World(config(**TWO, evaluation={"episodes": 40}), random.Random(5))
    world.drive(0.02)
    found = [e.body for e in world.events if isinstance(e.body, EvaluationCompleted)]
    assert {evaluation.when for evaluation in found} == {"before", "after"}
    for evaluation in found:
        rewards = {name: evaluation.metrics[f"reward/env/{name}"] for name in ("guess", "other")}
        assert min(rewards.values()) <= evaluation.reward_mean <= max(rewards.values())
        assert all(f"env/{name}/exact" in evaluation.metrics for name in rewards)
