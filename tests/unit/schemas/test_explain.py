"""Errors read as sentences that name the place as it was written, the cause and the mend."""

from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from tests.support.factories import make_config, make_spec

from warren.environment import Limits
from warren_schemas.config import TrainConfig
from warren_schemas.config.train import MAX_ENVIRONMENTS
from warren_schemas.openai import ChatRequest
from warren_schemas.text.error_paths import is_place
from warren_schemas.text.explain import (
    MOST_LOOKED_AT,
    MOST_TOLD,
    Mistakes,
    explain,
    mistakes,
    nearest,
)
from warren_schemas.text.literature import KEYS, OF_A_CLASS


def lines(**changes: Any) -> list[str]:
    """What is said of a config with these changes."""
    with pytest.raises(ValidationError) as caught:
        make_config(**changes)
    return explain(caught.value, TrainConfig)


BASE = {"base": "tiny"}


@pytest.mark.parametrize("place", sorted(set(KEYS.values())))
def test_what_other_trainers_call_a_setting_leads_to_a_key_that_exists(place: str) -> None:
    assert is_place(TrainConfig, place)


def test_a_name_of_another_trainer_is_answered_with_our_key() -> None:
    assert lines(warmup={"steps": 100}) == ["warmup: unknown key; did you mean sft?"]
    assert lines(optimizer={"lr": 0.1}) == [
        "optimizer.lr: unknown key; did you mean optimizer.learning_rate?"
    ]
    assert lines(optimizer={"warmup": 20}) == [
        "optimizer.warmup: unknown key; did you mean optimizer.warmup_steps?"
    ]
    assert lines(sampling={"n": 8}) == [
        "sampling.n: unknown key; did you mean algorithm.group_size?"
    ]
    for key in ("epochs", "Epochs"):
        assert lines(**{key: 3}) == [
            f"{key}: unknown key; did you mean limits.steps (counted in batches)?"
        ]


def test_limits_of_a_class_are_not_those_of_a_config() -> None:
    assert lines(limits={"step_s": 100}) == [
        "limits.step_s: unknown key; step_s is set in the environment's class: limits = Limits(step_s=…)"
    ]
    assert set(OF_A_CLASS) == {field.name for field in fields(Limits)}


def test_a_bare_name_is_answered_with_how_it_is_written() -> None:
    assert lines(environments=["guess"]) == [
        "environments.0: expected keys and values, got 'guess'; write {name: guess}"
    ]
    assert lines(environments="guess") == [
        "environments: expected a list, got 'guess'; write [{name: guess}]"
    ]
    assert lines(model="warren/tiny") == [
        "model: expected keys and values, got 'warren/tiny'; write {base: warren/tiny}"
    ]


def test_a_secrets_name_is_described_in_words() -> None:
    (line,) = lines(secrets=["openai-key"])
    assert line.endswith(
        "; a secret's name has letters, digits and _ only, and begins with no digit"
    )
    assert lines(secrets="MYKEY") == ["secrets: expected a list, got 'MYKEY'"]
    assert lines(environments=[{"name": "a", "secrets": "MYKEY"}]) == [
        "environments.0.secrets: expected a list, got 'MYKEY'"
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"algoritm": {}}, "algoritm: unknown key; did you mean algorithm?"),
        (
            {"algorithm": {"group_sise": 8}},
            "algorithm.group_sise: unknown key; did you mean group_size?",
        ),
        (
            {"model": BASE | {"update": {"kind": "lora", "rnk": 8}}},
            "model.update.rnk: unknown key; did you mean rank?",
        ),
        (
            {"model": BASE | {"update": {"kind": "full", "colour": 8}}},
            "model.update.colour: unknown key; valid keys: kind",
        ),
        (
            {"environments": [{"name": "a"}, {"name": "b", "splt": "x"}]},
            "environments.1.splt: unknown key; did you mean split?",
        ),
        (
            {"checkpoint": {"colour": "red"}},
            "checkpoint.colour: unknown key; valid keys: every_steps, keep_best, keep_every, keep_last",
        ),
        (
            {"temperature": 1},
            (
                "temperature: unknown key; did you mean sampling.temperature or"
                " evaluation.temperature or environments.sampling.temperature?"
            ),
        ),
        (
            {"rank": 8},
            "rank: unknown key; did you mean model.update.rank?",
        ),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_or_with_all(
    changes: dict[str, Any], line: str
) -> None:
    assert lines(**changes) == [line]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": {}}, "model.base: missing"),
        ({"model": "tiny"}, "model: expected keys and values, got 'tiny'; write {base: tiny}"),
        (
            {"model": BASE | {"update": {"rank": 8}}},
            "model.update.kind: missing; expected 'full' or 'lora'",
        ),
        (
            {"model": BASE | {"update": {"kind": "loraa"}}},
            "model.update.kind: expected 'full' or 'lora', got 'loraa'; did you mean lora?",
        ),
        (
            {"model": BASE | {"update": {"kind": "lora", "targets": 5}}},
            "model.update.targets: expected 'all-linear' or a list, got 5",
        ),
        (
            {"model": BASE | {"update": {"kind": "lora", "targets": ["q", 5]}}},
            "model.update.targets.1: expected text, got 5 (quotes make it text)",
        ),
        (
            {"environments": "guess"},
            "environments: expected a list, got 'guess'; write [{name: guess}]",
        ),
        (
            {"environments": []},
            (
                "environments: nothing says where episodes happen; name one, or fine-tune alone with"
                " sft.dataset and limits.steps: 0, without an evaluation"
            ),
        ),
        ({"environments": [5]}, "environments.0: expected keys and values, got 5"),
        ({"sampling": {"top_p": 0}}, "sampling.top_p: expected a number above 0, got 0"),
        ({"sampling": {"top_p": 1.5}}, "sampling.top_p: expected a number of at most 1, got 1.5"),
        ({"sampling": {"top_p": None}}, "sampling.top_p: expected a number, got nothing"),
        ({"optimizer": {"beta1": 1}}, "optimizer.beta1: expected a number below 1, got 1"),
        (
            {"limits": {"stop_at_reward": float("inf")}},
            "limits.stop_at_reward: expected a finite number, got inf",
        ),
        (
            {"algorithm": {"normalize": "token"}},
            (
                "algorithm.normalize: expected 'tokens', 'episodes' or 'none', got 'token';"
                " did you mean tokens?"
            ),
        ),
        (
            {"algorithm": {"advantage": "group_stdd"}},
            (
                "algorithm.advantage: expected 'group_std', 'group_mean', 'leave_one_out',"
                " 'direct', 'centered', 'centered_normalized', 'batch_mean' or 'batch_std', got 'group_stdd';"
                " did you mean group_std?"
            ),
        ),
        ({"name": ""}, "name: expected text of at least 1 characters"),
        ({"evaluation": {"before": 5}}, "evaluation.before: expected true or false, got 5"),
    ],
)
def test_a_wrong_value_is_answered_with_what_was_expected(
    changes: dict[str, Any], line: str
) -> None:
    assert lines(**changes) == [line]


def test_what_the_schema_itself_says_is_passed_on() -> None:
    [line] = lines(sampling={"temperature": 0})
    assert line.startswith("sampling.temperature: 0 makes all episodes of a group alike")


def test_everything_wrong_is_told_at_once_and_consequences_are_not() -> None:
    """A bad entry leaves the list short of one; only the entry is to blame."""
    assert lines(environments=[{"nam": "guess"}], seed=-1, model={"base": 5}) == [
        "model.base: expected text, got 5 (quotes make it text)",
        "environments.0.name: missing",
        "environments.0.nam: unknown key; did you mean name?",
        "seed: expected a number of at least 0, got -1",
    ]


def test_without_the_schema_places_and_causes_are_still_told() -> None:
    with pytest.raises(ValidationError) as caught:
        make_spec(seed=-1, colour="red")
    assert explain(caught.value) == [
        "seed: expected a number of at least 0, got -1",
        "colour: unknown key",
    ]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    api_key: str = Field(min_length=20, pattern="^wk_")
    password: SecretStr = Field(min_length=20)


def test_text_of_the_wrong_shape_is_not_shown_because_it_may_be_a_key() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"api_key": "wk_secret", "password": "hunter2"})
    told = "\n".join(explain(caught.value, Settings))
    assert "api_key: expected text of at least 20 characters" in told
    assert "secret" not in told
    assert "hunter2" not in told


def test_long_values_are_not_shown() -> None:
    [line] = lines(seed="x" * 1000)
    assert line == "seed: expected a whole number"


def test_nearest_knows_when_nothing_is_near() -> None:
    assert nearest("gues", ["guess", "arithmetic"]) == "guess"
    assert nearest("tictactoe", ["guess", "arithmetic"]) is None
    assert nearest("guess", []) is None


def test_variants_that_are_no_models_are_no_part_of_a_place() -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate({"model": "m", "messages": [{"role": "user"}], "stop": [""]})
    said = ["stop.0: expected text of at least 1 characters"]
    assert explain(caught.value, ChatRequest) == said


def test_the_first_of_many_mistakes_are_told_and_how_many_more_there_are() -> None:
    splits = {f"{i}": {"shufle": True} for i in range(MOST_TOLD + 2)}
    told = lines(environments=[{"name": "guess", "splits": splits}])
    assert told[0] == "environments.0.splits.0.shufle: unknown key"
    assert told[MOST_TOLD - 1 :] == [
        f"environments.0.splits.{MOST_TOLD - 1}.shufle: unknown key",
        "and 2 more",
    ]


def test_a_list_is_read_up_to_its_first_bad_entry() -> None:
    """There may be half a million of them, and nothing else runs while pydantic refuses each."""
    assert lines(environments=[{"name": "a"}, {"nam": "b"}, {"nam": "c"}], secrets=["1", "2"]) == [
        "environments.1.name: missing",
        "environments.1.nam: unknown key; did you mean name?",
        (
            "secrets.0: expected text that matches ^[A-Za-z_][A-Za-z0-9_]{0,127}$; a secret's name"
            " has letters, digits and _ only, and begins with no digit"
        ),
    ]
    many = [{"name": "guess"}] * (MAX_ENVIRONMENTS + 1)
    assert lines(environments=many) == ["environments: expected 256 or fewer entries, got 257"]


def test_what_is_wrong_ten_thousand_times_is_only_counted() -> None:
    rubbish = {f"rubbish_{i}": 1 for i in range(MOST_LOOKED_AT + 1)}
    with pytest.raises(ValidationError) as caught:
        make_config(**rubbish)
    said = [f"{len(rubbish)} mistakes, too many to name"]
    assert mistakes(caught.value, TrainConfig) == Mistakes(said, len(rubbish))
