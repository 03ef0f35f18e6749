"""Configs that are made in Python read, and fail, as those in a file do."""

from pathlib import Path

import pytest

from warren.configs import read_config
from warren_schemas.config import (
    AlgorithmConfig,
    CispoLoss,
    EnvironmentConfig,
    JudgeReward,
    KlPenalty,
    ModelConfig,
    OwnReward,
    Quorum,
    TrainConfig,
    YesNoScore,
)
from warren_schemas.errors import ConfigurationError

MODEL = {"base": "warren/tiny"}
ENVIRONMENTS = [{"name": "guess"}]


def complaints(**algorithm: object) -> tuple[str, ...]:
    given: dict[str, object] = {"model": MODEL, "environments": ENVIRONMENTS}
    with pytest.raises(ConfigurationError) as caught:
        TrainConfig(**given, algorithm=algorithm)  # pyright: ignore[reportArgumentType]
    return caught.value.details


def test_a_name_stands_for_its_kind() -> None:
    assert AlgorithmConfig(loss="cispo").loss == CispoLoss()  # pyright: ignore[reportArgumentType]
    config = TrainConfig(
        model=MODEL,  # pyright: ignore[reportArgumentType]
        environments=ENVIRONMENTS,  # pyright: ignore[reportArgumentType]
        algorithm={"loss": "cispo", "groups": "quorum"},  # pyright: ignore[reportArgumentType]
    )
    assert config.algorithm.loss == CispoLoss()
    assert config.algorithm.groups == Quorum()


def test_the_words_are_those_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "model: {base: warren/tiny}\nenvironments: [{name: guess}]\n"
        "algorithm: {group_sise: 3, loss: grpo, kl: {estimator: k1}}\n"
    )
    with pytest.raises(ConfigurationError) as caught:
        read_config(path)
    mine = complaints(group_sise=3, loss="grpo", kl={"estimator": "k1"})
    assert caught.value.details == mine
    assert "algorithm.group_sise: unknown key; did you mean group_size?" in mine
    assert mine[-1].startswith("algorithm.kl: k1 in the loss") or "k1 in the loss" in str(mine)


def test_what_is_made_by_itself_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no valid KlPenalty"):
        KlPenalty(estimator="k1")
    with pytest.raises(ConfigurationError, match="base: missing"):
        ModelConfig()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"loss": "grpo"}, "`advantage: group_std` with `loss: ppo`"),
        ({"loss": {"kind": "GRPO"}}, "`advantage: group_std` with `loss: ppo`"),
        ({"loss": "dr_grpo"}, "`advantage: group_mean`"),
        ({"loss": "dapo"}, "`normalize: tokens`"),
        ({"advantage": "rloo"}, "`advantage: leave_one_out`"),
        ({"loss": "reinforce"}, "`advantage: direct`"),
        ({"advantage": "gae"}, "`critic: {gae_lambda: 0.95}`"),
    ],
)
def test_names_of_the_literature_are_known(given: dict[str, object], answer: str) -> None:
    (line,) = complaints(**given)
    assert answer in line
    assert "did you mean" not in line


def test_they_are_names_at_their_places_only() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ModelConfig(base="m", update="grpo")  # pyright: ignore[reportArgumentType]
    assert "GRPO" not in str(caught.value)


def test_kinds_in_lists_may_be_written_shorter_too() -> None:
    judge = {"kind": "judge", "url": "http://x/v1", "model": "m", "prompt": "{response}"}
    environment = EnvironmentConfig(name="guess", rewards=["own", {**judge, "score": "yes_no"}])  # pyright: ignore[reportArgumentType]
    own, judged = environment.rewards
    assert own == OwnReward()
    assert isinstance(judged, JudgeReward) and judged.score == YesNoScore()
