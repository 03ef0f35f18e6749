"""Keys that can't have an effect beside others: refused where the config is read, with the reason."""

from typing import Any

import pytest

from warren_schemas.config import RecordedSource, TrainConfig
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


def test_a_config_that_is_none_of_a_replay_says_why() -> None:
    with pytest.raises(ConfigurationError, match="resume_from goes on with live episodes"):
        made(resume_from={"run": "run_0"}).for_replay(RecordedSource(run="run_1"))
