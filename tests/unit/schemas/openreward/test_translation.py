"""Configs of OpenReward's training example, key by key."""

from pathlib import Path
from typing import Any

import pytest

from warren.configs import read_openreward
from warren.errors import ConfigurationError
from warren_schemas.config_files.openreward.keys import TheirConfig, TheirEnvironment
from warren_schemas.config_files.openreward.translation import HOSTED_URL, Refused, translated
from warren_schemas.config_files.yaml_text import parse_yaml

EXAMPLE = Path(__file__).with_name("example.yaml")
HOSTS = [
    f"{name}.openreward.{end}"
    for end in ("ai", "internal")
    for name in ("sessions", "api", "search")
]
LITTLE: dict[str, Any] = {
    "model_name": "m",
    "batch_size": 4,
    "environments": {"A/B": {"splits": {"train": {"num_samples": 10}}, "num_rollouts": 2}},
}


def of_episodes(**settings: object) -> dict[str, object]:
    return {**LITTLE["environments"]["A/B"], **settings}


def test_the_example_names_every_key_but_those_that_are_refused() -> None:
    written: Any = parse_yaml(EXAMPLE.read_text())
    refused = {"resume_from", "system_prompt_template"}
    assert written.keys() == TheirConfig.model_fields.keys() - refused
    environment = written["environments"]["GeneralReasoning/WhoDunit"]
    assert environment.keys() == TheirEnvironment.model_fields.keys() - {"top_k"}


def test_the_example_is_taken_as_it_is() -> None:
    config, told = read_openreward(EXAMPLE)
    assert (config.name, config.seed, config.model.base) == ("whodunit", 42, "Qwen/Qwen3-30B-A3B")
    assert config.model.update.model_dump()["rank"] == 8
    train, validation = config.environments
    assert train.config == {
        "url": HOSTED_URL,
        "environment": "GeneralReasoning/WhoDunit",
        "key_variable": "WARREN_SECRET_OPENREWARD_API_KEY",
        "secrets": {
            "other_key": "WARREN_SECRET_OTHER_KEY",
            "api_key": "WARREN_SECRET_OPENREWARD_API_KEY",
            "OPENREWARD_API_KEY": "WARREN_SECRET_OPENREWARD_API_KEY",
        },
        "secret_domains": {"api_key": HOSTS, "OPENREWARD_API_KEY": HOSTS},
    }
    assert (train.split, validation.split) == ("train", "validation")
    assert validation.splits["validation"].model_dump() == {
        "shuffle": False, "num_samples": 20, "task_ids": (),
    }  # fmt: skip
    assert (train.group_size, train.max_failed_members) == (16, 2)
    assert (train.sampling.temperature, train.sampling.top_p) == (0.9, 0.95)
    assert train.reward_rules.model_dump() == {
        "reduction": "mean", "nonterminal": 0.0, "minimum": -1.0, "maximum": 1.0,
    }  # fmt: skip
    sampling, algorithm = config.sampling, config.algorithm
    assert (sampling.max_tokens, sampling.max_total_tokens, sampling.thinking) == (
        4096,
        32768,
        False,
    )
    assert algorithm.loss.model_dump() == {"kind": "ppo", "clip_low": 0.8, "clip_high": 1.3}
    assert (algorithm.groups_per_step, algorithm.max_staleness, algorithm.normalize) == (
        32,
        0,
        "none",
    )
    assert (config.optimizer.learning_rate, config.optimizer.weight_decay) == (1e-5, 0.01)
    assert config.checkpoint.every_steps == 10
    limits = config.limits
    assert (limits.episode_s, limits.episode_attempts, limits.in_flight) == (900, 4, 100_000)
    assert [line.partition(":")[0] for line in told] == [
        "environments", "secrets", "wandb_project_name, wandb_run_name", "log_path", "num_epochs",
        "max_active_tasks, max_rollout_concurrency", "rollout_timeout", "max_failing_rollouts",
        "reward_reduction", "environments",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"resume_from": "tinker://a"}, "resume_from: a checkpoint of Tinker"),
        ({"tokenizer_name": "other"}, "tokenizer_name: a base model comes with"),
        ({"system_prompt_template": "{tools}"}, "system_prompt_template: tools are told"),
        ({"secrets": {"a_key": "sk-123"}}, "secrets.a_key: a config is stored"),
        ({"loss_fn_config": {"beta": 1}}, "loss_fn_config.beta: ppo has no such key"),
        ({"environments": {"A/B": of_episodes(temperature=0)}}, "environments.A/B.temperature: 0 samples"),
        ({"environments": {"A/B": of_episodes(top_p=0)}}, "environments.A/B.top_p: 0 leaves no token"),
        ({"batch_sise": 3}, "batch_sise: unknown key; did you mean batch_size?"),
        ({"environments": {"A/B": {"splits": {"train": {}}, "num_rollouts": 2}}, "num_epochs": 2}, "num_epochs"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_refused_in_a_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(Refused) as refused:
        translated({**LITTLE, **changes})
    assert [told for told in refused.value.lines if told.startswith(line)]
    assert "sk-123" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, []),
        ({"reward_reduction": "sum"}, []),
        ({"reward_reduction": "max"}, ["reward_reduction: it is over turns"]),
        ({"max_failing_rollouts": 3}, ["max_failing_rollouts: episodes that time out count as well"]),
        ({"top_k": 5}, ["top_k: it has its effect here"]),
    ],
)  # fmt: skip
def test_what_works_otherwise_in_episodes_is_told_in_a_line(
    settings: dict[str, Any], lines: list[str]
) -> None:
    told = translated({**LITTLE, "environments": {"A/B": of_episodes(**settings)}}).told
    kinds = ("rollout_timeout", "max_failing_rollouts", "reward_reduction", "top_k")
    of_settings = [line for line in told if line.startswith(kinds)]
    assert len(of_settings) == len(lines)
    assert all(line.startswith(words) for line, words in zip(of_settings, lines, strict=True))


def test_epochs_are_steps_where_the_tasks_are_counted() -> None:
    config = translated({**LITTLE, "num_epochs": 3}).config
    assert config["limits"]["steps"] == 6
    assert config["environments"][0]["weight"] == 10


@pytest.mark.parametrize(
    ("url", "is_theirs"),
    [
        (HOSTED_URL, True),
        ("https://sessions.openreward.ai", True),
        ("http://sessions.openreward.ai/", False),
        ("https://openreward.ai.example.org/", False),
        ("https://notopenreward.ai/", False),
    ],
)
def test_the_key_goes_to_openreward_alone(url: str, is_theirs: bool) -> None:
    given = translated({**LITTLE, "secrets": {"hf_token": None}}, url).config
    config = given["environments"][0]["config"]
    assert ("key_variable" in config) is is_theirs
    assert ("WARREN_SECRET_OPENREWARD_API_KEY" in config["secrets"].values()) is is_theirs
    assert "hf_token" in config.get("secret_domains", {"hf_token": None})


def test_another_server_and_overrides_of_ours(tmp_path: Path) -> None:
    config, told = read_openreward(EXAMPLE, ["limits.steps=5"], url="http://127.0.0.1:8643/")
    assert config.limits.steps == 5
    assert config.environments[0].config["url"] == "http://127.0.0.1:8643/"
    assert "key_variable" not in config.environments[0].config
    assert "127.0.0.1" in told[0]
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ConfigurationError):
        read_openreward(tmp_path / "broken.yaml")
