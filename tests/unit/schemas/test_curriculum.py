"""Where a curriculum has no effect, or can't have the one that is meant, its config is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from warren_schemas.config import RecordedSource, TrainConfig

LEVELS, TASKS = {"n": 4}, {"over": "tasks", "n": 64}


def config(
    curriculum: dict[str, Any], of_environment: dict[str, Any], **changes: Any
) -> TrainConfig:
    environment = {"name": "guess", "curriculum": curriculum, **of_environment}
    return TrainConfig.model_validate(
        {"model": {"base": "tiny"}, "environments": [environment], **changes}
    )


@pytest.mark.parametrize(
    ("curriculum", "of_environment", "changes", "reason"),
    [
        ({"n": 1}, {}, {}, "greater than or equal to 2"),
        ({"n": 4, "uniform": 0.0}, {}, {}, "greater than 0"),
        ({"n": 2000}, {}, {}, "less than or equal to 1024"),
        (
            {"n": 4, "uniform": 1.0, "score_temperature": 1.0},
            {},
            {},
            "score_temperature has no effect with uniform: 1",
        ),
        (
            TASKS,
            {"splits": {"train": {"num_samples": 32}}},
            {},
            "curriculum.n is 64, and splits.train.num_samples leaves 32 tasks",
        ),
        (
            TASKS,
            {"splits": {"train": {"task_ids": ["a", "b"]}}},
            {},
            "splits.train.task_ids leaves 2 tasks",
        ),
        (
            TASKS,
            {},
            {"limits": {"steps": 0}, "evaluation": {}},
            "environments.0.curriculum chooses among tasks to train on",
        ),
        (
            LEVELS,
            {},
            {"source": {"kind": "recorded", "run": "run_1"}},
            "no use for environments.0.curriculum",
        ),
        (
            TASKS,
            {},
            {"source": {"kind": "recorded", "run": "run_1"}, "evaluation": {"episodes": 4}},
            "no use for environments.0.curriculum",
        ),
    ],
)
def test_a_curriculum_without_its_effect_is_refused(
    curriculum: dict[str, Any], of_environment: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        config(curriculum, of_environment, **changes)


def test_an_evaluation_keeps_levels_and_leaves_a_choice_of_tasks_out() -> None:
    assert config(LEVELS, {}).for_evaluation().environments[0].curriculum is not None
    assert config(TASKS, {}).for_evaluation().environments[0].curriculum is None


@pytest.mark.parametrize("curriculum", [LEVELS, TASKS])
def test_replays_leave_it_out(curriculum: dict[str, Any]) -> None:
    source = RecordedSource(run="run_1")
    of = config(curriculum, {})
    assert of.for_replay(source).environments[0].curriculum is None
    assert of.for_recorded_evaluation(source).environments[0].curriculum is None


def test_tasks_are_chosen_once_each_and_not_among_rows() -> None:
    with pytest.raises(ValidationError, match="'a' more than once"):
        config(LEVELS, {"splits": {"train": {"task_ids": ["a", "b", "a"]}}})
    with pytest.raises(ValidationError, match="with dataset the tasks are rows"):
        config(LEVELS, {"dataset": "mine", "splits": {"train": {"task_ids": ["a"]}}})
