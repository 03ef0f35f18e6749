"""Keys that can't have an effect beside others: refused where the config is read, with the reason."""

from typing import Any

import pytest

from warren_schemas.config import EnvironmentConfig, RecordedSource, TrainConfig
from warren_schemas.errors import ConfigurationError

REPLAY = {"source": {"kind": "recorded", "run": "run_1"}}


def made(*, environment: dict[str, Any] | None = None, **keys: Any) -> TrainConfig:
    written: dict[str, Any] = {
        "model": {"base": "tiny"},
        "environments": [{"name": "guess", **(environment or {})}],
    }
    return TrainConfig(**written, **keys)


@pytest.mark.parametrize("judge", [{"credit": "turn"}, {"critic": {}}])
@pytest.mark.parametrize(
    "key", [{"reward_reduction": "mean"}, {"min_reward": 0.0}, {"max_reward": 1.0}]
)
def test_one_reward_of_an_episode_where_those_of_turns_are_trained_on(
    judge: dict[str, Any], key: dict[str, Any]
) -> None:
    made(environment=key)
    made(environment={"nonterminal_reward": -1.0}, algorithm=judge)
    with pytest.raises(ConfigurationError, match=rf"environments\.0\.{next(iter(key))} is for"):
        made(environment=key, algorithm=judge)


@pytest.mark.parametrize(
    "loss",
    [
        {"kind": "ppo", "clip_low": 0.5},
        {"kind": "gspo", "clip_high": 1.5},
        {"kind": "cispo", "clip_high": 2.0},
        {"kind": "sapo", "tau_neg": 2.0},
    ],
)
def test_thresholds_of_a_ratio_that_is_1(loss: dict[str, Any]) -> None:
    made(algorithm={"loss": loss})
    made(algorithm={"loss": loss["kind"], "tis_cap": 2.0})
    made(algorithm={"loss": {"kind": "dro", "beta": 0.1}, "tis_cap": 2.0})
    with pytest.raises(ConfigurationError, match="with tis_cap the loss sees none"):
        made(algorithm={"loss": loss, "tis_cap": 2.0})


def test_an_evaluation_that_never_happens() -> None:
    made(evaluation={"before": False, "after": False, "every_steps": 3})
    with pytest.raises(ConfigurationError, match="nothing would ever be evaluated"):
        made(evaluation={"before": False, "after": False})
    with pytest.raises(ConfigurationError, match=r"every_steps is 11 and limits\.steps 10"):
        made(evaluation={"every_steps": 11}, limits={"steps": 10})


def test_settings_of_a_split_that_nothing_uses() -> None:
    used: dict[str, Any] = {"split": "a", "evaluation_split": "b", "splits": {"a": {}, "b": {}}}
    made(environment=used)
    with pytest.raises(ConfigurationError, match=r"splits\.c are settings of a split that is not"):
        made(environment={**used, "splits": {"c": {}}})


def test_what_only_live_episodes_have_a_use_for() -> None:
    keys: dict[str, Any] = {
        "environment": {"sampling": {"stop": ["a"], "temperature": 0.5}},
        "sampling": {"temperature": 0.7, "top_p": 0.9},
        "algorithm": {"max_staleness": 5, "group_size": 3},
    }
    with pytest.raises(ConfigurationError) as refused:
        made(**keys, **REPLAY)
    names = (
        "algorithm.max_staleness, sampling.temperature, environments.0.sampling.temperature,"
        " sampling.top_p, environments.0.sampling.stop"
    )
    assert f"a recorded source has no use for {names}" in str(refused.value)

    source = RecordedSource(run="run_1")
    replay = made(**keys).for_replay(source)
    assert replay == made(algorithm={"group_size": 3}, source=source)


def test_the_evaluation_of_a_replay_samples() -> None:
    evaluated = {"evaluation": {}, "sampling": {"temperature": 0.7, "top_p": 0.9}}
    with pytest.raises(ConfigurationError, match=r"no use for sampling\.temperature: what"):
        made(**evaluated, **REPLAY)
    replay = made(**evaluated).for_replay(RecordedSource(run="run_1"))
    assert (replay.sampling.temperature, replay.sampling.top_p) == (1.0, 0.9)


OF_ENVIRONMENTS: dict[str, Any] = {
    "workers": "own", "config": {"high": 3}, "dataset": "tasks", "split": "a", "evaluation_split": "b", "splits": {"a": {}},
    "weight": 2.0, "max_turns": 3, "recover": "restart", "tool_format": "xml", "group_size": 3, "max_failed_members": 1,
    "rewards": [{"kind": "own"}], "reward_reduction": "mean", "nonterminal_reward": -1.0, "min_reward": 0.0, "max_reward": 1.0, "episode_s": 9.0,
    "episode_attempts": 4, "max_in_flight": 4, "secrets": ["KEY"],
}  # fmt: skip
"""Every key of an environment but its name, its sampling and its curriculum (`test_curriculum`)."""
OF_TASKS = {
    "dataset", "split", "evaluation_split", "splits", "weight", "max_turns", "recover", "tool_format",
}  # fmt: skip
NOTHING: dict[str, Any] = {}
SCORED: dict[str, Any] = {"rewards": "scored"}
EVALUATED: dict[str, Any] = {"evaluation": {}}


def test_the_keys_of_environments_are_all_here() -> None:
    keys = {*OF_ENVIRONMENTS, "name", "sampling", "curriculum"}
    assert keys == set(EnvironmentConfig.model_fields)


@pytest.mark.parametrize(
    ("source", "more", "unused"),
    [
        (NOTHING, NOTHING, OF_ENVIRONMENTS.keys() - {"max_failed_members"}),
        (SCORED, NOTHING, OF_TASKS),
        (NOTHING, EVALUATED, {"group_size"}),
        (SCORED, EVALUATED, set[str]()),
    ],
    ids=["neither", "scored", "evaluated", "both"],
)
def test_keys_of_environments_that_a_replay_has_no_use_for(
    source: dict[str, Any], more: dict[str, Any], unused: set[str]
) -> None:
    recorded = RecordedSource(run="run_1", **source)
    for key, value in OF_ENVIRONMENTS.items():
        needed = {"split": "a"} if key == "splits" else {}
        config = made(environment={key: value, **needed}, **more)
        left_out = config.left_out_of_replay(is_scored=recorded.is_scored)
        assert (f"environments.0.{key}" in left_out) is (key in unused), key
        assert config.for_replay(recorded).left_out_of_replay(is_scored=recorded.is_scored) == []
        if key in unused:
            with pytest.raises(ConfigurationError, match=rf"environments\.0\.{key}\b.*; leave out"):
                made(environment={key: value, **needed}, source=recorded, **more)
        else:
            made(environment={key: value, **needed}, source=recorded, **more)


@pytest.mark.parametrize(
    "limits",
    [{"episode_s": 9.0}, {"in_flight": 4}, {"episode_attempts": 4}, {"failed_groups": 2}],
    ids=str,
)
def test_limits_of_episodes_where_none_is_played(limits: dict[str, Any]) -> None:
    made(limits=limits, evaluation={}, **REPLAY)
    made(limits=limits, source={**REPLAY["source"], **SCORED})
    with pytest.raises(
        ConfigurationError, match=rf"limits\.{next(iter(limits))}: no effect .* scored anew"
    ):
        made(limits=limits, **REPLAY)


def test_a_size_bounds_how_many_may_fail() -> None:
    both = {"group_size": 12, "max_failed_members": 9}
    made(environment=both, **REPLAY)
    assert made(environment=both).for_replay(RecordedSource(run="run_1")) == made(
        environment=both, **REPLAY
    )


def test_a_replay_evaluates_the_split_of_evaluations_alone() -> None:
    splits: dict[str, Any] = {"a.b": {"num_samples": 3}, "c": {"num_samples": 4}}
    environment = {"split": "a.b", "evaluation_split": "c", "splits": splits}
    with pytest.raises(ConfigurationError) as refused:
        made(environment=environment, evaluation={}, **REPLAY)
    assert (
        "environments.0.split, environments.0.splits.a.b: no effect where recorded episodes are trained on and"
        " evaluation_split is evaluated; leave out" in str(refused.value)
    )
    replay = made(environment=environment, evaluation={}).for_replay(RecordedSource(run="run_1"))
    assert replay.environments[0].splits.keys() == {"c"}
    assert replay.environments[0].split == "train"


def test_a_config_that_is_none_of_a_replay_says_why() -> None:
    with pytest.raises(ConfigurationError, match="resume_from goes on with live episodes"):
        made(resume_from={"run": "run_0"}).for_replay(RecordedSource(run="run_1"))
